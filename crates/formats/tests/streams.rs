//! Recognition, compression, limits, and files that can't be read.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::io::{self, Read, Write};

use flate2::write::GzEncoder;
use formats::{Compression, Error, Format, Limits, Output, read_bytes, read_path, read_stream};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use support::{problem, read, refusal};

const CSV: &str = "id,lower,upper,size\na,0,2,64\nb,1,3,32\n";

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    compress_to_vec(text, CompressionLevel::Fastest)
}

#[test]
fn a_file_is_recognised_by_its_content_whatever_its_compression() {
    for (bytes, compression) in [
        (CSV.as_bytes().to_vec(), Compression::Plain),
        (gzip(CSV.as_bytes()), Compression::Gzip),
        (zstd(CSV.as_bytes()), Compression::Zstd),
    ] {
        let document = read(&bytes);
        assert_eq!(document.format, Format::DsaCsv);
        assert_eq!(document.compression, compression);
        assert_eq!(document.stored_bytes, bytes.len() as u64);
        assert_eq!(document.text_bytes, CSV.len() as u64);
    }
}

#[test]
fn several_members_or_frames_are_one_text() {
    let (head, tail) = CSV.split_at(30);
    let gzips = [gzip(head.as_bytes()), gzip(tail.as_bytes())].concat();
    assert_eq!(problem(gzips).ids, ["a", "b"]);
    let skipped = [&b"\x50\x2a\x4d\x18\x05\0\0\0hello"[..]].concat();
    let zstds = [zstd(head.as_bytes()), skipped.clone(), zstd(tail.as_bytes()), skipped].concat();
    assert_eq!(problem(zstds).ids, ["a", "b"]);
}

#[test]
fn the_format_field_may_stand_anywhere() {
    let graph = |format: &str| format!(r#"{{"tensors":[],"ops":[],"meta":{{"a":[1,{{}}]}},{format}}}"#);
    assert_eq!(read(graph(r#""format":"gpumem-graph/1""#)).format, Format::Graph);
    // Further down than what is looked at first.
    let filler = format!(r#""x-filler":"{}","#, "f".repeat(200_000));
    assert_eq!(read(graph(&format!(r#"{filler}"format":"gpumem-graph/1""#))).format, Format::Graph);
    assert_eq!(
        refusal(graph(&format!(r#"{filler}"format":"gpumem-graph/2""#))),
        "f: format `gpumem-graph/2` is unknown; gpumem reads DSA CSV, trace CSV, gpumem-trace/1, gpumem-graph/1, \
         gpumem-plan/1, gpumem-corpus-graph/1, gpumem-corpus-hlo/1, PyTorch memory snapshots and RMM logs (docs/formats.md)"
    );
    assert_eq!(read(format!("\u{feff} \n{}", graph(r#""format":"gpumem-graph/1""#))).format, Format::Graph);
}

#[test]
fn what_is_not_ours_is_refused_in_words() {
    for (bytes, message) in [
        (&b""[..], "f: the file is empty"),
        (b" \n\t\n", "f: the file is empty"),
        (b"\xef\xbb\xbf", "f: the file is empty"),
        (b"{}", "f: JSON without a `format` field"),
        (b"{\"format\":3}", "f: format `3` is unknown"),
        (b"{\"format\":\"dsa-csv\"}", "f: format `dsa-csv` is unknown"),
        (b"[1,2]", "not recognised: a JSON list"),
        (b"# only\n# comments\n", "not recognised: text whose first line is `# only`"),
        (b"hello, world\n1,2\n", "not recognised: text whose first line is `hello, world`"),
        (b"a,0,1,5\n", "not recognised: text whose first line is `a,0,1,5`"),
        (b"HloModule jit_step", "not recognised: text whose first line is `HloModule jit_step`"),
        (b"\x7fELF\x02\x01\x01", "not recognised: a program or library (ELF)"),
        (b"\x80\x04\x95", "f: byte 3: the pickle is cut off"),
        (b"\x80\x04K\x05.", "f: byte 4: a pickle, but not a memory snapshot: it holds a whole number"),
        (b"\x08\x07\x12\x0cpaddle", "not recognised: a protocol buffer, perhaps an ONNX model"),
        (b"\x01\x02\x03\x00abc", "not recognised: binary data that begins with the bytes 01 02 03 00 61 62 63"),
        (b"\xff\xfei\0d\0", "not recognised: UTF-16 text"),
    ] {
        let error = refusal(bytes);
        assert!(error.contains(message), "{error:?}\n not {message:?}");
    }
    assert!(refusal(gzip(&gzip(CSV.as_bytes()))).contains("not recognised: gzip data inside compressed data"));
    assert!(refusal(gzip(b"")).contains("f: the file is empty"));
}

#[test]
fn broken_json_has_a_line_and_a_column() {
    for (text, message) in [
        ("{\n  \"format\" \"x\"}", "f: line 2, column 12: expected `:`"),
        ("{\"format\": \"gpumem-graph/1\",\n \"tensors\": [}", "f: line 2, column 14: tensors[0]: expected value"),
        (
            "{\"format\": \"gpumem-graph/1\", \"ops\": [], \"tensors\": []",
            "f: line 1, column 53: EOF while parsing an object",
        ),
        (
            "{\"format\": \"gpumem-graph/1\", \"ops\": [], \"tensors\": []}\nx",
            "f: line 2, column 1: trailing characters",
        ),
        ("{", "f: line 1, column 1: EOF while parsing an object"),
        ("{\"a\": tru}", "f: line 1, column 10: expected ident"),
    ] {
        assert_eq!(refusal(text), message);
    }
    let error = refusal(b"{\"format\": \"gpumem-graph/1\", \"name\": \"\xff\"}");
    assert!(error.starts_with("f: line 1, column 39: name: invalid unicode code point"), "{error}");
}

#[test]
fn messages_do_no_harm_to_a_terminal() {
    let escape = "\\u001b[2J\\n";
    for text in [
        format!("{{\"format\":\"{escape}{}\"}}", "x".repeat(5000)),
        format!("{{\"format\":\"gpumem-graph/1\",\"{escape}{}\":1}}", "x".repeat(5000)),
        format!(
            "{{\"format\":\"gpumem-graph/1\",\"tensors\":[],\"ops\":[],\"loss\":\"{escape}{}\"}}",
            "x".repeat(5000)
        ),
        format!("id,lower,upper,size\na,0,1,\u{1b}[2J{}", "x".repeat(5000)),
    ] {
        let error = refusal(text);
        assert!(error.contains("\\u{1b}[2J") && error.contains("..."), "{error}");
        assert!(!error.contains(char::is_control) && error.len() < 1300, "{error}");
    }
}

#[test]
fn deep_nesting_is_refused_or_stepped_over_without_deep_recursion() {
    let deep = 2_000_000;
    let open = "[".repeat(deep);
    assert!(refusal(format!("{{\"format\":{open}")).contains("line 1, column"));
    assert!(
        refusal(format!("{{\"format\":\"gpumem-graph/1\",\"tensors\":{open}")).contains("tensors[0]: invalid type")
    );
    let whole = format!("{open}{}", "]".repeat(deep));
    let text = format!("{{\"format\":\"gpumem-graph/1\",\"tensors\":[],\"ops\":[],\"meta\":{whole}}}");
    assert_eq!(read(text).format, Format::Graph);
}

#[test]
fn a_file_cut_off_says_so() {
    let rows: String =
        (0..50_000).map(|i: u64| format!("b{i},{},{},{}\n", i % 97, i % 97 + 5, i * 7919 % 10_007 + 1)).collect();
    let text = format!("id,lower,upper,size\n{rows}");
    for (bytes, word) in [(gzip(text.as_bytes()), "gzip"), (zstd(text.as_bytes()), "zstd")] {
        for cut in [3, 11, bytes.len() / 2, bytes.len() - 1] {
            let error = read_bytes("f", &bytes[..cut], &Limits::default()).unwrap_err();
            // With three bytes nobody can tell zstd.
            if !(word == "zstd" && cut == 3) {
                assert!(matches!(error, Error::Truncated { .. }), "{word} {cut}: {error}");
                assert!(error.to_string().starts_with(&format!("f: the {word} data is cut off after ")), "{error}");
            }
        }
    }
}

#[test]
fn damage_is_noticed_even_where_the_text_still_parses() {
    let mut bytes = gzip(CSV.as_bytes());
    let at = bytes.len() - 6;
    bytes[at] ^= 1;
    let error = refusal(&bytes);
    assert!(error.contains("the gzip data is damaged after 38 bytes of text"), "{error}");
    let mut bytes = zstd(CSV.as_bytes());
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    assert_eq!(refusal(&bytes), "f: the zstd data is damaged after 38 bytes of text: the checksum is wrong");
}

#[test]
fn a_bomb_is_refused_long_before_it_is_unpacked() {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(b"id,lower,upper,size\n#").unwrap();
    let block = vec![b'#'; 1 << 20];
    for _ in 0..300 {
        encoder.write_all(&block).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    let error = read_bytes("f", &bomb, &Limits::default()).unwrap_err();
    let Error::Bomb { text_bytes, limit: 250, .. } = error else { panic!("{error}") };
    assert!(text_bytes < 80 << 20, "{text_bytes}");
    // The total is a limit of its own, for plain files too.
    let mut limits = Limits::default();
    limits.max_text_bytes = 1000;
    let long = format!("id,lower,upper,size\n{}", "#\n".repeat(1000));
    let error = read_bytes("f", long.as_bytes(), &limits).unwrap_err();
    assert_eq!(error.to_string(), "f: the text is longer than the limit of 1000 bytes");
}

#[test]
fn no_length_that_a_file_claims_is_believed() {
    // A frame that says it holds 10 GiB, in one segment and with a window.
    let claim = (10_u64 << 30).to_le_bytes();
    let one_segment = [&b"\x28\xb5\x2f\xfd\xe0"[..], &claim, b"\x01\0\0"].concat();
    assert!(refusal(one_segment).contains("the zstd data is damaged after 0 bytes of text"));
    let window = [&b"\x28\xb5\x2f\xfd\xc0\x70"[..], &claim, b"\x01\0\0"].concat();
    let message = "the zstd data is damaged after 0 bytes of text: a frame that claims 10737418240 bytes has 0";
    assert!(refusal(window).contains(message));
    // A tensor of 10 GB is nothing special.
    let tensor = r#"{"format":"gpumem-graph/1","ops":[],"tensors":[{"id":0,"dtype":"f32","shape":[2500000000]}]}"#;
    assert_eq!(support::graph(tensor).tensors[0].bytes.0, 10_000_000_000);
}

#[test]
fn a_million_rows_are_read_row_by_row() {
    struct Rows(u64, Vec<u8>);
    impl Read for Rows {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.1.is_empty() && self.0 < 1_000_000 {
                let i = self.0;
                self.1 = format!("buffer-{i},{i},{},4096\n", i + 10).into_bytes();
                self.0 += 1;
            }
            let count = buffer.len().min(self.1.len());
            buffer[..count].copy_from_slice(&self.1[..count]);
            self.1.drain(..count);
            Ok(count)
        }
    }
    let document =
        read_stream("rows", b"id,lower,upper,size\n".chain(Rows(0, Vec::new())), &Limits::default()).unwrap();
    assert_eq!(support::as_problem(document).ids.len(), 1_000_000);
}

#[test]
fn a_reader_that_fails_is_reported_as_such() {
    struct Fails(&'static [u8]);
    impl Read for Fails {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(io::Error::other("the disk is on fire")),
                count => Ok(count),
            }
        }
    }
    let bytes: &'static [u8] = Box::leak(gzip(CSV.as_bytes()).into_boxed_slice());
    for head in [&b""[..], b"id", CSV.as_bytes(), &bytes[..20], bytes] {
        let error = read_stream("f", Fails(head), &Limits::default()).unwrap_err();
        assert_eq!(error.to_string(), "f: can't read: the disk is on fire");
        assert!(matches!(error, Error::Io { action: "read", .. }));
    }
}

/// A folder for one test, removed at its end.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gpumem-formats-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_path_that_cannot_be_read_is_named() {
    let folder = Folder::new("unreadable");
    let missing = folder.0.join("missing.csv");
    let error = read_path(&missing, &Limits::default()).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: can't open: No such file", missing.display())), "{error}");
    let error = read_path(&folder.0, &Limits::default()).unwrap_err().to_string();
    assert!(error.contains("can't read: Is a directory"), "{error}");
}

#[test]
fn a_file_is_compressed_as_its_name_says_and_named_after_itself() {
    let folder = Folder::new("written");
    let text = CSV.as_bytes();
    for (name, compression) in
        [("two.dsa.csv", Compression::Plain), ("two.csv.gz", Compression::Gzip), ("two.csv.zst", Compression::Zstd)]
    {
        let path = folder.0.join(name);
        let mut output = Output::create(&path).unwrap();
        output.write_all(text).unwrap();
        output.finish().unwrap();
        let document = read_path(&path, &Limits::default()).unwrap();
        assert_eq!(document.compression, compression);
        assert_eq!(support::as_problem(document).name.split('.').next(), Some("two"));
    }
    assert_eq!(folder.names(), ["two.csv.gz", "two.csv.zst", "two.dsa.csv"]);
}

#[test]
fn a_long_zstd_file_is_several_frames_and_comes_back() {
    let folder = Folder::new("frames");
    let path = folder.0.join("long.csv.zst");
    let rows: String =
        (0..400_000_u64).map(|i| format!("{i},{},{},{}\n", i % 97, i % 97 + 5, i * 7919 % 10_007 + 1)).collect();
    let mut output = Output::create(&path).unwrap();
    write!(output, "id,lower,upper,size\n{rows}").unwrap();
    output.finish().unwrap();
    let document = read_path(&path, &Limits::default()).unwrap();
    assert!(document.text_bytes > 6 << 20);
    assert_eq!(support::as_problem(document).ids.len(), 400_000);
}

#[test]
fn a_file_not_finished_leaves_no_trace() {
    let folder = Folder::new("dropped");
    let path = folder.0.join("out.json");
    std::fs::write(&path, "before").unwrap();
    let mut output = Output::create(&path).unwrap();
    output.write_all(b"after").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"before");
    drop(output);
    assert_eq!(folder.names(), ["out.json"]);
    assert_eq!(std::fs::read(&path).unwrap(), b"before");
    let error = Output::create(folder.0.join("no folder/out.json")).unwrap_err().to_string();
    assert!(error.contains("out.json: can't create: No such file"), "{error}");
    let error = Output::create(&folder.0).unwrap_err().to_string();
    assert!(error.contains("can't create: is a directory"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_link_stays_a_link_and_a_device_is_written_to() {
    let folder = Folder::new("links");
    let (file, link) = (folder.0.join("file"), folder.0.join("link"));
    std::fs::write(&file, "before").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let mut output = Output::create(&link).unwrap();
    output.write_all(b"after").unwrap();
    output.finish().unwrap();
    assert!(link.is_symlink());
    assert_eq!(std::fs::read(&file).unwrap(), b"after");
    let mut null = Output::create("/dev/null").unwrap();
    null.write_all(b"x").unwrap();
    null.finish().unwrap();
    assert!(!std::path::Path::new("/dev/null").is_file());
    let mut full = Output::create("/dev/full").unwrap();
    let error = full.write_all(&vec![b'x'; 1 << 20]).unwrap_err().to_string();
    assert!(error.starts_with("No space left"), "{error}");
    let mut full = Output::create("/dev/full").unwrap();
    full.write_all(b"x").unwrap();
    assert!(full.finish().unwrap_err().to_string().starts_with("/dev/full: can't write: No space left"));
}
