//! Stacks and tags in words.

use std::collections::HashMap;

use records::{FrameId, NameId, Names, StackId, Stacks, Telling, clip};
use serde::Serialize;

/// Most calls of a stack that are told.
const CALLS: usize = 3;
/// Most bytes of a function's or file's name in a label: any number of stacks may share a name of any length.
const MAX_NAME_BYTES: usize = 240;
/// Most bytes of a name that are looked at: the first of a function's, the last of a file's.
const READ_NAME_BYTES: usize = 16 << 10;

/// The telling part of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub(crate) struct StackLabel {
    /// The calls, innermost first, each as `function file:line`.
    pub(crate) calls: Vec<String>,
    /// The framework's operator that the innermost call asked for, if the stack says.
    pub(crate) operator: Option<String>,
}

impl StackLabel {
    /// In one line.
    pub(crate) fn line(&self) -> String {
        let operator = self.operator.as_ref().map(|operator| format!(" [{operator}]")).unwrap_or_default();
        match self.calls.split_first() {
            None if operator.is_empty() => "(no stack recorded)".to_owned(),
            None => operator.trim_start().to_owned(),
            Some((first, rest)) => {
                let rest: String = rest.iter().map(|call| format!(" < {}", without_folders(call))).collect();
                format!("{first}{operator}{rest}")
            }
        }
    }

    /// The same without line numbers, to find it in a file that has moved by some lines.
    pub(crate) fn without_lines(&self) -> Self {
        let calls = self.calls.iter().map(|call| place_and_line(call).0.to_owned()).collect();
        Self { calls, operator: self.operator.clone() }
    }

    /// The line numbers, innermost first; 0 where there is none.
    pub(crate) fn lines(&self) -> Vec<u32> {
        self.calls.iter().map(|call| place_and_line(call).1).collect()
    }
}

fn place_and_line(call: &str) -> (&str, u32) {
    let cut = call.rsplit_once(':').and_then(|(place, line)| Some((place, line.parse().ok()?)));
    cut.unwrap_or((call, 0))
}

/// `forward model/block.py:41` as `forward block.py:41`: enough for the calls around the one that counts.
fn without_folders(call: &str) -> String {
    match call.rsplit_once(' ') {
        Some((function, place)) if place.contains(['/', '\\']) => {
            format!("{function} {}", place.rsplit(['/', '\\']).next().unwrap_or(place))
        }
        _ => call.to_owned(),
    }
}

/// Which frames make a label: what stacks are grouped by before anything is put into words.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LabelKey {
    calls: Vec<FrameId>,
    operator: Option<FrameId>,
}

/// Puts the stacks and tags of a recording into words.
pub(crate) struct Labels<'a> {
    names: &'a Names,
    stacks: &'a Stacks,
    telling: Telling,
}

impl<'a> Labels<'a> {
    /// For the tables of a recording.
    pub(crate) fn new(names: &'a Names, stacks: &'a Stacks) -> Self {
        Self { names, stacks, telling: Telling::new(stacks, names) }
    }

    /// What stands for a stack.
    pub(crate) fn key(&self, stack: StackId) -> LabelKey {
        let calls = self.telling.frames(self.stacks, stack, CALLS);
        let operator = self.telling.operator(self.stacks, stack).filter(|operator| !calls.contains(operator));
        LabelKey { calls, operator }
    }

    /// A key in words.
    pub(crate) fn words(&self, key: &LabelKey) -> StackLabel {
        StackLabel {
            calls: key.calls.iter().map(|&frame| self.call(frame)).collect(),
            operator: key.operator.map(|frame| self.function(self.stacks.frame(frame).function)),
        }
    }

    /// A stack in words.
    pub(crate) fn stack(&self, stack: StackId) -> StackLabel {
        self.words(&self.key(stack))
    }

    /// A tag as it is.
    pub(crate) fn tag(&self, tag: NameId) -> &'a str {
        self.names.get(tag)
    }

    fn function(&self, name: NameId) -> String {
        // Arguments, which are cut off, are most of a long name; but not of one that was made to be long.
        let name = clip(self.names.get(name), READ_NAME_BYTES);
        clip(&short_function(&name), MAX_NAME_BYTES).into_owned()
    }

    fn call(&self, frame: FrameId) -> String {
        let frame = self.stacks.frame(frame);
        let function = self.function(frame.function);
        let file = clip(short_file(self.names.get(frame.file)), MAX_NAME_BYTES);
        match (function.is_empty(), file.is_empty() || file == "??", frame.line) {
            (_, true, _) => function,
            (true, false, 0) => file.into_owned(),
            (true, false, line) => format!("{file}:{line}"),
            // Compiled code: the function says more than the file it was generated into.
            (false, false, 0) => function,
            (false, false, line) => format!("{function} {file}:{line}"),
        }
    }
}

/// A function of compiled code without its types: `at::_ops::mm::call(...)` is `mm`, a node of the backward pass is named
/// by the operator it is the derivative of.
fn short_function(function: &str) -> String {
    let bare = without_types(function);
    let bare = bare.strip_prefix("torch::autograd::").unwrap_or(&bare);
    if let Some(rest) = bare.strip_prefix("at::_ops::") {
        return rest.split("::").next().unwrap_or(rest).to_owned();
    }
    let node = bare.split("::").find(|part| part.contains("Backward") || *part == "AccumulateGrad");
    match node {
        Some(node) if bare.starts_with("generated::") || bare.starts_with("AccumulateGrad") => {
            let node = node.strip_suffix("_apply_functional").unwrap_or(node);
            format!("{node} (backward pass)")
        }
        _ => bare.to_owned(),
    }
}

/// Cuts arguments and template arguments off; a name that isn't compiled code's stays as it is.
fn without_types(function: &str) -> String {
    if !function.contains("::") {
        return function.to_owned();
    }
    let mut text = String::with_capacity(function.len().min(120));
    let mut depth = 0_usize;
    let mut rest = function.strip_prefix("void ").unwrap_or(function).replace("(anonymous namespace)::", "");
    if rest.starts_with('<') {
        rest = function.to_owned();
    }
    for c in rest.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 => break,
            _ if depth == 0 => text.push(c),
            _ => {}
        }
    }
    if text.is_empty() { function.to_owned() } else { text }
}

/// The last two parts of a path: enough to know the file by, short enough for a line. The framework's own keep its name.
fn short_file(file: &str) -> &str {
    let file = &file[file.ceil_char_boundary(file.len().saturating_sub(READ_NAME_BYTES))..];
    let installed = file.rfind("site-packages/").map_or(file, |at| &file[at + "site-packages/".len()..]);
    if installed.starts_with("torch/") && installed.matches('/').count() <= 3 {
        return installed;
    }
    let mut cuts = file.rmatch_indices(['/', '\\']).map(|(at, _)| at + 1);
    let from = cuts.nth(1).unwrap_or(0);
    file.get(from..).unwrap_or(file)
}

/// Groups values by label, keeping the first that was met of each.
pub(crate) type ByLabel<T> = HashMap<LabelKey, T>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiled_functions_are_named_by_what_they_do() {
        assert_eq!(short_function("at::_ops::mm::call(at::Tensor const&, at::Tensor const&)"), "mm");
        assert_eq!(
            short_function("torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor>&&)"),
            "MmBackward0 (backward pass)"
        );
        assert_eq!(short_function("at::native::(anonymous namespace)::pad<float>(long)"), "at::native::pad");
        assert_eq!(short_function("forward"), "forward");
        assert_eq!(short_function("<module>"), "<module>");
        assert_eq!(short_file("a/b/c.py"), "b/c.py");
        assert_eq!(short_file("c.py"), "c.py");
        assert_eq!(short_file("/c.py"), "/c.py");
        assert_eq!(short_file(&format!("{}/b/c.py", "ä".repeat(READ_NAME_BYTES))), "b/c.py");
        assert!(short_file(&"ä".repeat(READ_NAME_BYTES)).len() <= READ_NAME_BYTES);
        assert_eq!(short_file("/usr/lib/python3/site-packages/torch/optim/adamw.py"), "torch/optim/adamw.py");
    }

    #[test]
    fn a_label_reads_from_the_inside_out() {
        let label = StackLabel {
            calls: vec!["forward net/model.py:39".to_owned(), "main net/train.py:7".to_owned()],
            operator: Some("einsum".to_owned()),
        };
        assert_eq!(label.line(), "forward net/model.py:39 [einsum] < main train.py:7");
        assert_eq!(label.without_lines().line(), "forward net/model.py [einsum] < main train.py");
        assert_eq!(StackLabel::default().line(), "(no stack recorded)");
    }
}
