//! Colours, or none. Pure.

/// What a piece of text is, as far as its looks go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A heading or a name that matters.
    Strong,
    /// Emphasised.
    Emphasis,
    /// Struck through.
    Struck,
    /// Code.
    Code,
    /// Beside the point.
    Dim,
    /// Good.
    Good,
    /// To be looked at.
    Warn,
    /// Bad.
    Bad,
    /// A link.
    Link,
}

impl Style {
    const fn start(self) -> &'static str {
        match self {
            Self::Strong => "\x1b[1m",
            Self::Emphasis => "\x1b[3m",
            Self::Struck => "\x1b[9m",
            Self::Code => "\x1b[36m",
            Self::Dim => "\x1b[2m",
            Self::Good => "\x1b[32m",
            Self::Warn => "\x1b[33m",
            Self::Bad => "\x1b[31m",
            Self::Link => "\x1b[4m",
        }
    }
}

/// Whether text is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// With colours.
    Colour,
    /// Without.
    Plain,
}

impl Paint {
    /// Colours where `yes`.
    pub fn when(yes: bool) -> Self {
        if yes { Self::Colour } else { Self::Plain }
    }

    /// The text in a style.
    pub fn paint(self, style: Style, text: &str) -> String {
        if self == Self::Plain || text.is_empty() {
            return text.to_owned();
        }
        format!("{}{text}\x1b[0m", style.start())
    }
}
