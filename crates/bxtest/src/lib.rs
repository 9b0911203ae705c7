//! Test support: a scripted model server, a disposable home, fault injection.
