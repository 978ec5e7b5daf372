//! Which calls of a stack a person wants to see.

use crate::{FrameId, NameId, Names, StackId, Stacks};

/// Whose code a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Owner {
    /// The program's, or that of a library that isn't part of the framework.
    Program,
    /// The framework's Python code, where it does something of its own.
    Framework,
    /// A node of the backward pass.
    Backward,
    /// An operator of the framework.
    Operator,
    /// Compiled code that has a name.
    Compiled,
    /// Calls that only lead to the next one.
    Plumbing,
}

/// Picks the calls that say where a request came from: the program's own, innermost first. Where a stack has none, the
/// framework's, then the node of the backward pass, then the operator, then whatever has a name.
#[derive(Clone, Debug, Default)]
pub struct Telling {
    owners: Vec<Owner>,
    module: Option<NameId>,
}

impl Telling {
    /// Judges every frame of the table once.
    pub fn new(stacks: &Stacks, names: &Names) -> Self {
        let owner = |index: usize| {
            let frame = stacks.frame(FrameId(u32::try_from(index).unwrap_or(u32::MAX)));
            owner(names.get(frame.function), names.get(frame.file))
        };
        let module = names.iter().find(|(_, name)| *name == "<module>").map(|(id, _)| id);
        Self { owners: (0..stacks.frame_count()).map(owner).collect(), module }
    }

    fn is_module(&self, stacks: &Stacks, frame: &FrameId) -> bool {
        self.module == Some(stacks.frame(*frame).function)
    }

    /// At most `count` telling calls of a stack, innermost first; a call that follows itself is named once.
    pub fn frames(&self, stacks: &Stacks, stack: StackId, count: usize) -> Vec<FrameId> {
        let frames = stacks.frames(stack);
        let owner_of = |frame: &FrameId| self.owners.get(frame.0 as usize).copied().unwrap_or(Owner::Plumbing);
        let best = frames.iter().map(owner_of).min().unwrap_or(Owner::Plumbing);
        match best {
            Owner::Plumbing => return Vec::new(),
            // One of these says it all. An operator calls others to do its work: the outermost is the one that was asked.
            Owner::Operator => return frames.iter().rev().find(|f| owner_of(f) == best).into_iter().copied().collect(),
            Owner::Backward | Owner::Compiled => {
                return frames.iter().find(|f| owner_of(f) == best).into_iter().copied().collect();
            }
            Owner::Program | Owner::Framework => {}
        }
        let wanted = frames.iter().filter(|frame| owner_of(frame) == best && !self.is_module(stacks, frame));
        // The top of a file says less than what it calls, but more than nothing.
        if wanted.clone().next().is_none() {
            return frames.iter().find(|f| owner_of(f) == best).into_iter().copied().collect();
        }
        let mut told: Vec<FrameId> = Vec::new();
        for &frame in wanted {
            if told.len() == count {
                break;
            }
            if told.last() != Some(&frame) {
                told.push(frame);
            }
        }
        told
    }

    /// The operator that Python code asked for: the outermost one before the innermost Python call.
    pub fn operator(&self, stacks: &Stacks, stack: StackId) -> Option<FrameId> {
        let owner_of = |frame: &FrameId| self.owners.get(frame.0 as usize).copied().unwrap_or(Owner::Plumbing);
        let compiled = stacks.frames(stack).iter().take_while(|frame| owner_of(frame) > Owner::Framework);
        compiled.filter(|frame| owner_of(frame) == Owner::Operator).last().copied()
    }
}

/// Folders of the framework and of what it is launched by.
const FRAMEWORK_FOLDERS: [&str; 8] =
    ["torch", "functorch", "einops", "triton", "torchgen", "jax", "jaxlib", "tensorflow"];

/// Functions that only call others.
const PLUMBING: [&str; 12] = [
    "_call_impl",
    "_wrapped_call_impl",
    "__call__",
    "wrapper",
    "wrapped",
    "inner",
    "decorate_context",
    "decorate_autocast",
    "__torch_function__",
    "__torch_dispatch__",
    "_fn",
    "profile_hook_step",
];

fn owner(function: &str, file: &str) -> Owner {
    if file.ends_with(".py") {
        let mut folders = file.split(['/', '\\']);
        folders.next_back();
        if !folders.any(|folder| FRAMEWORK_FOLDERS.contains(&folder)) {
            return if is_launcher(file) { Owner::Plumbing } else { Owner::Program };
        }
        return if PLUMBING.contains(&function) { Owner::Plumbing } else { Owner::Framework };
    }
    if function.is_empty() {
        return if file.is_empty() || file == "??" { Owner::Plumbing } else { Owner::Compiled };
    }
    if file.starts_with('<') {
        return Owner::Plumbing;
    }
    if is_backward_node(function) {
        return Owner::Backward;
    }
    if function.starts_with("at::_ops::") {
        return Owner::Operator;
    }
    let is_compiled = is_cpp_file(file)
        || function.starts_with("at::native::")
        || (!file.is_empty() && file != "??" && !function.starts_with(['_', '?']));
    if is_compiled { Owner::Compiled } else { Owner::Plumbing }
}

/// The interpreter's own modules that start a program or wrap a call.
fn is_launcher(file: &str) -> bool {
    const MODULES: [&str; 4] = ["runpy.py", "contextlib.py", "threading.py", "functools.py"];
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    file.starts_with("<frozen") || MODULES.contains(&name)
}

fn is_backward_node(function: &str) -> bool {
    // The cheap question first: names may be of any length.
    function.starts_with("torch::autograd::")
        && (function.contains("Backward") || function.contains("::AccumulateGrad::"))
}

fn is_cpp_file(file: &str) -> bool {
    [".cpp", ".cc", ".cu", ".h", ".cxx", ".rs", ".c", ".hpp"].iter().any(|ending| file.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Frame;

    fn told(calls: &[(&str, &str)]) -> Vec<String> {
        let (mut names, mut stacks) = (Names::default(), Stacks::default());
        let frames: Vec<FrameId> = calls
            .iter()
            .map(|(function, file)| {
                let frame = Frame { function: names.intern(function), file: names.intern(file), line: 1 };
                stacks.intern_frame(frame)
            })
            .collect();
        let stack = stacks.intern(&frames);
        let telling = Telling::new(&stacks, &names);
        let frames = telling.frames(&stacks, stack, 2);
        frames.into_iter().map(|frame| names.get(stacks.frame(frame).function).to_owned()).collect()
    }

    #[test]
    fn the_programs_own_calls_are_told_before_any_other() {
        let stack = [
            ("torch::unwind::unwind()", "??"),
            ("at::native::empty_cuda(long)", "??"),
            ("at::_ops::einsum::call(long)", "??"),
            ("_PyEval_EvalFrameDefault", "??"),
            ("einsum", "torch/functional.py"),
            ("forward", "model/attention.py"),
            ("_call_impl", "torch/nn/modules/module.py"),
            ("forward", "model/block.py"),
            ("<module>", "train.py"),
        ];
        assert_eq!(told(&stack), ["forward", "forward"]);
        assert_eq!(told(&stack[7..]), ["forward"]);
        assert_eq!(told(&stack[8..]), ["<module>"]);
        assert_eq!(told(&stack[..5]), ["einsum"]);
        assert_eq!(told(&stack[..4]), ["at::_ops::einsum::call(long)"]);
        assert_eq!(told(&stack[..2]), ["at::native::empty_cuda(long)"]);
        assert_eq!(told(&stack[..1]), Vec::<String>::new());
        assert_eq!(told(&[]), Vec::<String>::new());
        let backward = [
            ("at::_ops::mm::call(long)", "??"),
            ("torch::autograd::generated::MmBackward0::apply(long)", "??"),
            ("torch::autograd::Engine::evaluate_function()", "??"),
        ];
        assert_eq!(told(&backward), ["torch::autograd::generated::MmBackward0::apply(long)"]);
    }
}
