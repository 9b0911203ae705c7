//! Whom to trust.

use super::error::EgressError;
use super::stream::Stream;
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The largest file of certificates that is read, in bytes.
const MAX_CA_FILE_BYTES: u64 = 1024 * 1024;

/// The authorities that certificates are checked against.
#[derive(Debug, Clone)]
pub struct Roots(Arc<ClientConfig>);

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// The file can't be read, or holds no certificate.
    #[error("`{}` holds no usable certificate: {why}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The system has none.
    #[error(
        "the system has no certificates of authorities ({0}); install `ca-certificates`, or name a `ca_file`"
    )]
    System(String),
    /// TLS itself can't be set up: a fault of the program.
    #[error("TLS can't be set up")]
    Setup(#[from] rustls::Error),
}

impl Roots {
    /// The authorities in a file, and no others.
    pub fn of_file(path: &Path) -> Result<Self, RootsError> {
        let wrong = |why: String| RootsError::File {
            path: path.to_owned(),
            why,
        };
        let length = std::fs::metadata(path)
            .map_err(|error| wrong(error.to_string()))?
            .len();
        if length > MAX_CA_FILE_BYTES {
            return Err(wrong("it is larger than 1 MiB".to_owned()));
        }
        let mut roots = RootCertStore::empty();
        let certificates =
            CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
            roots
                .add(certificate)
                .map_err(|error| wrong(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(wrong("there is none in it".to_owned()));
        }
        Self::trusting(roots)
    }

    /// The authorities that the system trusts.
    pub fn of_system() -> Result<Self, RootsError> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
            return Err(RootsError::System(errors.join("; ")));
        }
        Self::trusting(roots)
    }

    fn trusting(roots: RootCertStore) -> Result<Self, RootsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        // Each request is alone on its connection; nothing of an earlier one is shown.
        config.resumption = rustls::client::Resumption::disabled();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }

    /// Puts TLS around a connection to a host, which is a name or a number.
    ///
    /// # Errors
    /// The other side can't show that it is the host, or speaks no TLS.
    pub async fn secure(&self, host: &str, stream: TcpStream) -> Result<Stream, EgressError> {
        self.handshake(host, stream)
            .await
            .map_err(|source| EgressError::Tls {
                host: host.to_owned(),
                source,
            })
    }

    async fn handshake(&self, host: &str, stream: TcpStream) -> io::Result<Stream> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = match host.parse::<IpAddr>() {
            Ok(ip) => ServerName::from(ip.to_canonical()),
            Err(_) => ServerName::try_from(host.to_owned()).map_err(io::Error::other)?,
        };
        let connector = TlsConnector::from(Arc::clone(&self.0));
        let secured = connector.connect(name, stream).await?;
        Ok(Stream::Secured(Box::new(secured)))
    }
}
