//! An authority of the test's own, and a certificate by it.

use rcgen::{BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::sync::Arc;

/// A server's side of TLS, and the authority that vouches for it, as PEM.
pub(super) struct Identity {
    pub(super) config: Arc<ServerConfig>,
    pub(super) authority: String,
}

/// A certificate with its key, and the authority that vouches for it, as PEM.
#[derive(Debug)]
pub struct Pem {
    /// The host's certificate and key.
    pub host: String,
    /// The authority's certificate.
    pub authority: String,
}

/// A certificate for these names, by a new authority.
pub fn certificate(names: &[&str]) -> Pem {
    let (certificate, key, authority) = signed(names);
    Pem {
        host: format!("{}{}", certificate.pem(), key.serialize_pem()),
        authority,
    }
}

fn signed(names: &[&str]) -> (Certificate, KeyPair, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let params = CertificateParams::new(names).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    (certificate, key, issuer.pem())
}

/// A server's side of TLS with a certificate for these names, by a new authority.
pub(super) fn identity(names: &[&str]) -> Identity {
    let (certificate, key, authority) = signed(names);
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    Identity {
        config: Arc::new(config),
        authority,
    }
}
