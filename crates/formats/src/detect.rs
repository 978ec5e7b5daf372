//! Which format a text is in, told by what it holds and never by its file's name.

use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};

use crate::{Format, gpumem_trace};
#[cfg(feature = "foreign")]
use crate::{dsa_csv, rmm_log, torch_snapshot, trace_csv};

/// What the beginning of a text looks like.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing but white space.
    Nothing,
    /// A format of ours.
    Ours(Format),
    /// A JSON object whose `format` isn't known.
    UnknownFormat(String),
    /// A JSON object without `format`.
    NoFormat,
    /// A JSON object whose `format`, if any, stands further down than what was looked at.
    NotYet,
    /// A JSON object that is broken before its `format`.
    Broken,
    /// Something else, in words.
    Else(String),
}

/// The UTF-8 byte order mark.
const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];

/// Bytes to step over before the text proper.
pub(crate) fn mark_bytes(head: &[u8]) -> usize {
    if head.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 }
}

/// Recognises a text, without its byte order mark, by its beginning; `is_all` says that `head` is the whole text.
pub(crate) fn detect(head: &[u8], is_all: bool) -> Found {
    #[cfg(feature = "foreign")]
    if torch_snapshot::has_magic(head) {
        return Found::Ours(Format::TorchSnapshot);
    }
    if gpumem_trace::has_magic(head) {
        return Found::Ours(Format::Trace);
    }
    let text = head.trim_ascii_start();
    if text.is_empty() {
        return if is_all { Found::Nothing } else { Found::Else("white space without end".to_owned()) };
    }
    match text.first() {
        Some(b'{') => json_format(text, is_all),
        #[cfg(feature = "foreign")]
        _ if rmm_log::has_header(head) => Found::Ours(Format::RmmLog),
        #[cfg(feature = "foreign")]
        _ if trace_csv::has_header(head) => Found::Ours(Format::TraceCsv),
        #[cfg(feature = "foreign")]
        _ if dsa_csv::has_header(head) => Found::Ours(Format::DsaCsv),
        Some(b'[') => Found::Else("a JSON list; our formats are objects with a `format` field".to_owned()),
        _ => Found::Else(binary(head).unwrap_or_else(|| describe_text(text))),
    }
}

/// First bytes of files that people have at hand.
const MAGICS: &[(&[u8], &str)] = &[
    (b"\x1f\x8b", "gzip data inside compressed data"),
    (b"\x28\xb5\x2f\xfd", "zstd data inside compressed data"),
    (b"\xfd7zXZ\0", "xz data, which isn't read; use gzip or zstd"),
    (b"BZh", "bzip2 data, which isn't read; use gzip or zstd"),
    (b"\x04\x22\x4d\x18", "lz4 data, which isn't read; use gzip or zstd"),
    (b"PK\x03\x04", "a zip archive (as PyTorch's checkpoints are)"),
    (b"\x7fELF", "a program or library (ELF)"),
    (b"\x89PNG", "a PNG picture"),
    (b"\x89HDF", "an HDF5 file"),
    (b"GGUF", "a GGUF model"),
    (b"PAR1", "a Parquet file"),
    (b"%PDF", "a PDF document"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\xff\xfe", "UTF-16 text; save it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text; save it as UTF-8"),
];

/// What kind of binary data this is; `None` for text.
fn binary(head: &[u8]) -> Option<String> {
    if let Some((_, name)) = MAGICS.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Some((*name).to_owned());
    }
    // The first field of an ONNX model is its version, the second its producer's name or its imports.
    if let [0x08, 0x01..=0x1f, 0x12 | 0x3a | 0x42, ..] = head {
        return Some("a protocol buffer, perhaps an ONNX model, which isn't read yet".to_owned());
    }
    let looked_at = &head[..head.len().min(1024)];
    let is_control = |b: u8| b < 0x20 && !matches!(b, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b);
    if !looked_at.iter().any(|&b| is_control(b)) {
        return None;
    }
    let bytes: Vec<String> = looked_at.iter().take(8).map(|b| format!("{b:02x}")).collect();
    Some(format!("binary data that begins with the bytes {}", bytes.join(" ")))
}

/// What kind of text this is, by its first line.
fn describe_text(text: &[u8]) -> String {
    const SHOWN: usize = 60;
    let line = text.split(|&b| b == b'\n').next().unwrap_or_default().trim_ascii_end();
    let shown = String::from_utf8_lossy(&line[..line.len().min(SHOWN)]);
    let dots = if line.len() > SHOWN { "..." } else { "" };
    format!("text whose first line is `{}{dots}`", shown.escape_debug())
}

/// What the `format` field of a JSON object says, reading no further than that.
fn json_format(text: &[u8], is_all: bool) -> Found {
    struct FormatFinder<'a>(&'a mut Option<serde_json::Value>);

    impl<'de> Visitor<'de> for FormatFinder<'_> {
        type Value = ();

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while let Some(key) = map.next_key::<std::borrow::Cow<'_, str>>()? {
                if key == "format" {
                    *self.0 = Some(map.next_value()?);
                    return Ok(());
                }
                map.next_value::<IgnoredAny>()?;
            }
            Ok(())
        }
    }

    let mut format = None;
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    // Where the field was found the rest of the object is an error of no interest.
    let result = deserializer.deserialize_map(FormatFinder(&mut format));
    match (format, result) {
        (Some(serde_json::Value::String(name)), _) => match Format::from_name(&name) {
            Some(format) => Found::Ours(format),
            None => Found::UnknownFormat(name),
        },
        (Some(other), _) => Found::UnknownFormat(other.to_string()),
        (None, Ok(())) => Found::NoFormat,
        (None, Err(error)) if error.is_eof() && !is_all => Found::NotYet,
        (None, Err(_)) => Found::Broken,
    }
}
