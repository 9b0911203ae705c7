//! Providers: models elsewhere that lead whole sessions, where a grant admits them.

mod settings;

pub use settings::Settings;
