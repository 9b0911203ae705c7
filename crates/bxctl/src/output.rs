//! Everything that a person sees: the only module that writes to the terminal.
//!
//! Answers go to standard output, all else to standard error. Colour and progress appear on a
//! terminal only. Renderers are pure and give text; [`Output`] alone writes it.

mod blocks;
mod markdown;
mod progress;
mod sanitize;
mod sink;
mod style;
mod table;
mod visible;
mod wrap;

pub use blocks::Blocks;
pub use markdown::render as render_markdown;
pub use progress::Progress;
pub use sanitize::{Sanitizer, one_line, sanitize};
pub use sink::{Gone, Output};
pub use style::{Paint, Style};
pub use table::{Table, bytes, dollars, duration};
pub use visible::visible;
pub use wrap::wrap;
