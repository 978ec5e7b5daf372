//! The frame of a page: one file that asks nobody for anything. A content security policy in its head allows its own
//! script and style by their hashes, and no other code, request or frame, so that even markup that slipped in with a
//! name could neither run nor call out.

use std::io::{self, Write};

use sha2::{Digest, Sha256};

use crate::{Theme, escape::markup, pack::base64, palette};

const SHARED_STYLE: &str = include_str!("../assets/theme.css");
const SHARED_SCRIPTS: [&str; 3] =
    [include_str!("../assets/shell.js"), include_str!("../assets/numbers.js"), include_str!("../assets/axes.js")];

/// A page to be written.
pub(crate) struct Page<'a> {
    /// Its title, as plain text.
    pub(crate) title: &'a str,
    /// Its colours.
    pub(crate) theme: Theme,
    /// Rules beyond those all pages share.
    pub(crate) style: &'a str,
    /// The body's markup.
    pub(crate) body: &'a str,
    /// Scripts beyond those all pages share, in this order; they see each other's names and run in strict mode.
    pub(crate) scripts: &'a [&'a str],
}

impl Page<'_> {
    /// Writes the page; `data` adds its data blocks.
    pub(crate) fn write<W: Write>(&self, mut out: W, data: impl FnOnce(W) -> io::Result<W>) -> io::Result<()> {
        let style = format!("{}{SHARED_STYLE}{}", palette::style_sheet(), self.style);
        let parts: Vec<&str> = SHARED_SCRIPTS.iter().chain(self.scripts).copied().collect();
        let script = format!("\"use strict\";\n(() => {{\n{}\n}})();\n", parts.join("\n"));
        let hash = |text: &str| format!("'sha256-{}'", base64(&Sha256::digest(text)));
        let theme = match self.theme {
            Theme::Auto => String::new(),
            chosen => format!(" data-theme=\"{}\"", chosen.name()),
        };
        write!(
            out,
            "<!doctype html>\n<html lang=\"en\"{theme}>\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src {}; style-src {}; \
             img-src data:; base-uri 'none'; form-action 'none'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n\
             <link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>{style}</style>\n</head>\n<body>\n{}\n",
            hash(&script),
            hash(&style),
            markup(self.title),
            self.body,
        )?;
        let mut out = data(out)?;
        write!(out, "<script>{script}</script>\n</body>\n</html>\n")?;
        out.flush()
    }
}

/// `template` with each `{{name}}` replaced by what `value` says. Values are not looked at again, so a value that
/// contains `{{...}}` stays as it is; `value` escapes what needs it.
pub(crate) fn filled(template: &str, value: impl Fn(&str) -> String) -> String {
    let mut text = String::with_capacity(template.len() * 2);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        text.push_str(before);
        let Some((name, after)) = after.split_once("}}") else {
            text.push_str("{{");
            rest = after;
            continue;
        };
        text.push_str(&value(name));
        rest = after;
    }
    text.push_str(rest);
    text
}

/// The drawing of a button on a grid of 16 by 16.
pub(crate) fn icon(name: &str) -> String {
    let path = match name {
        "plus" => "M8 3v10M3 8h10",
        "minus" => "M3 8h10",
        "up" => "M4 10l4-4 4 4",
        "down" => "M4 6l4 4 4-4",
        "left" => "M10 4l-4 4 4 4",
        "right" => "M6 4l4 4-4 4",
        "panel" => "M2.500 3h11v10h-11zM9.500 3v10",
        "close" => "M4 4l8 8M12 4l-8 8",
        "box" => {
            "M2.5 5V2.500h2.500M8 2.500h.01M11 2.500h2.500V5M13.500 8v.01M13.500 11v2.500H11M8 13.500h-.01M5 13.500H2.500V11M2.500 8v-.01"
        }
        "fit" => "M6 2.500H2.500V6M10 2.500h3.500V6M13.500 10v3.500H10M6 13.500H2.500V10",
        "reset" => "M3 8a5 5 0 1 0 1.600-3.650M3 2.500v3h3",
        "theme" => "M8 2.500a5.500 5.500 0 1 0 0 11zM8 2.500a5.500 5.500 0 0 1 0 11M8 5h3M8 8h5.500M8 11h3",
        "help" => "M5.800 6a2.200 2.200 0 1 1 3.200 2c-.7.4-1 .8-1 1.500M8 12.500v.01",
        _ => "",
    };
    format!("<svg viewBox=\"0 0 16 16\" aria-hidden=\"true\"><path d=\"{path}\"/></svg>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_never_taken_for_a_placeholder() {
        let text = filled("a {{x}} b {{y}} c {{", |name| if name == "x" { "{{y}}".to_owned() } else { "Y".to_owned() });
        assert_eq!(text, "a {{y}} b Y c {{");
    }

    #[test]
    fn no_asset_holds_what_would_end_its_element() {
        for script in SHARED_SCRIPTS {
            assert!(!script.contains("</script") && !script.contains("<!--"));
        }
        assert!(!SHARED_STYLE.contains("</style"));
    }
}
