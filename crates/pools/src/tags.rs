//! The tags that are in force on a thread.
//!
//! A fixed array in the thread's own storage: pushing, popping and asking allocate nothing, and work while the thread is
//! being torn down, since nothing in it has to be dropped.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::Tag;

/// How many tags a thread can have in force at a time.
pub const TAG_DEPTH: usize = 256;

struct Stack {
    /// The tag in force: a copy of the last one below `depth`, so that asking is one load.
    /// Packed, so that it travels in a register.
    top: Cell<u64>,
    depth: Cell<usize>,
    /// Pushes beyond the depth, whose pops are still to come.
    refused: Cell<u32>,
    tags: [Cell<Tag>; TAG_DEPTH],
}

thread_local! {
    static STACK: Stack = const {
        Stack {
            top: Cell::new(Tag::NONE.pack()),
            depth: Cell::new(0),
            refused: Cell::new(0),
            tags: [const { Cell::new(Tag::NONE) }; TAG_DEPTH],
        }
    };
}

impl Stack {
    fn push(&self, tag: Tag) -> bool {
        let depth = self.depth.get();
        let Some(place) = self.tags.get(depth) else {
            self.refused.set(self.refused.get().saturating_add(1));
            return false;
        };
        place.set(tag);
        self.depth.set(depth + 1);
        self.top.set(tag.pack());
        true
    }

    fn pop(&self) -> Option<Tag> {
        if let Some(left) = self.refused.get().checked_sub(1) {
            self.refused.set(left);
            return None;
        }
        let depth = self.depth.get().checked_sub(1)?;
        self.depth.set(depth);
        let popped = self.tags[depth].get();
        self.top.set(depth.checked_sub(1).map_or(Tag::NONE, |below| self.tags[below].get()).pack());
        Some(popped)
    }

    fn capture(&self) -> TagStack {
        let tags = self.tags.iter().take(self.depth.get()).map(Cell::get).collect();
        TagStack { tags, refused: self.refused.get() }
    }

    fn replace(&self, by: &TagStack) {
        for (place, tag) in self.tags.iter().zip(by.tags.iter()) {
            place.set(*tag);
        }
        self.depth.set(by.tags.len());
        self.refused.set(by.refused);
        self.top.set(by.tags.last().copied().unwrap_or(Tag::NONE).pack());
    }
}

/// Puts a tag in force on this thread until the matching [`tag_pop`]. False if [`TAG_DEPTH`] tags are already: then the tag
/// in force stays, and the matching pop takes nothing off.
pub fn tag_push(tag: Tag) -> bool {
    STACK.try_with(|stack| stack.push(tag)).unwrap_or(false)
}

/// Takes off the tag that this thread pushed last, and returns it. `None` if there is none, or if the push that this pop
/// belongs to was refused.
pub fn tag_pop() -> Option<Tag> {
    STACK.try_with(Stack::pop).ok().flatten()
}

/// The tag in force on this thread; [`Tag::NONE`] if there is none.
#[must_use]
#[inline]
pub fn tag_current() -> Tag {
    Tag::unpack(packed_tag_current())
}

/// The same in one word.
#[inline]
pub(crate) fn packed_tag_current() -> u64 {
    STACK.try_with(|stack| stack.top.get()).unwrap_or(Tag::NONE.pack())
}

/// The tags in force on this thread, to be put in force on another one that goes on with the same work.
///
/// ```
/// use pools::{Tag, tag_current, tag_push, tags_capture};
///
/// tag_push(Tag::NONE.with_op("attention"));
/// let (here, tags) = (tag_current(), tags_capture());
/// std::thread::spawn(move || {
///     let _scope = tags.enter();
///     assert_eq!(tag_current(), here);
/// })
/// .join()
/// .unwrap();
/// ```
#[must_use]
pub fn tags_capture() -> TagStack {
    STACK.try_with(Stack::capture).unwrap_or_default()
}

/// Tags captured on one thread. Copies share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagStack {
    tags: Arc<[Tag]>,
    refused: u32,
}

impl TagStack {
    /// The tags, the one in force last.
    #[must_use]
    pub fn tags(&self) -> &[Tag] {
        &self.tags
    }

    /// Puts these tags in force on this thread instead of its own, until the scope is dropped. What is pushed and not popped
    /// meanwhile goes with them. Scopes of one thread are to be dropped in reverse order.
    #[must_use = "the tags are in force until the scope is dropped"]
    pub fn enter(&self) -> TagScope {
        let before = STACK
            .try_with(|stack| {
                let before = stack.capture();
                stack.replace(self);
                before
            })
            .unwrap_or_default();
        TagScope { before, stays_on_its_thread: PhantomData }
    }
}

/// While this lives, captured tags are in force; then this thread's own are again.
pub struct TagScope {
    before: TagStack,
    stays_on_its_thread: PhantomData<*const ()>,
}

impl fmt::Debug for TagScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TagScope").field("before", &self.before).finish_non_exhaustive()
    }
}

impl Drop for TagScope {
    fn drop(&mut self) {
        // Without storage there is nothing to put back.
        let _ = STACK.try_with(|stack| stack.replace(&self.before));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn tag(owner: u32) -> Tag {
        Tag { owner, ..Tag::NONE }
    }

    /// Threads of the test harness may be used again, so each test takes one of its own.
    fn alone(test: impl FnOnce() + Send + 'static) {
        std::thread::spawn(test).join().unwrap();
    }

    #[test]
    fn the_tag_in_force_is_the_last_pushed_and_not_popped() {
        alone(|| {
            assert_eq!((tag_current(), tag_pop()), (Tag::NONE, None));
            assert!(tag_push(tag(1)) && tag_push(tag(2)));
            assert_eq!(tag_current(), tag(2));
            assert_eq!(tag_pop(), Some(tag(2)));
            assert_eq!(tag_current(), tag(1));
            assert_eq!(tag_pop(), Some(tag(1)));
            assert_eq!((tag_current(), tag_pop()), (Tag::NONE, None));
        });
    }

    #[test]
    fn a_push_beyond_the_depth_is_refused_and_pops_stay_balanced() {
        alone(|| {
            for depth in 0..TAG_DEPTH as u32 {
                assert!(tag_push(tag(depth)));
            }
            let last = tag(TAG_DEPTH as u32 - 1);
            for _ in 0..3 {
                assert!(!tag_push(tag(9_999)));
            }
            let captured = tags_capture();
            for _ in 0..3 {
                assert_eq!((tag_current(), tag_pop()), (last, None));
            }
            assert_eq!(tag_pop(), Some(last));
            let scope = captured.enter();
            assert_eq!((tag_pop(), tag_pop(), tag_pop(), tag_pop()), (None, None, None, Some(last)));
            drop(scope);
            for depth in (0..TAG_DEPTH as u32 - 1).rev() {
                assert_eq!(tag_pop(), Some(tag(depth)));
            }
            assert_eq!(tag_pop(), None);
        });
    }

    #[test]
    fn captured_tags_are_in_force_on_another_thread_until_the_scope_ends() {
        alone(|| {
            tag_push(tag(1));
            tag_push(tag(2));
            let captured = tags_capture();
            assert_eq!(captured.tags(), [tag(1), tag(2)]);
            alone(move || {
                tag_push(tag(7));
                let scope = captured.enter();
                assert_eq!(tag_current(), tag(2));
                let inner = TagStack::default().enter();
                assert_eq!(tag_current(), Tag::NONE);
                drop(inner);
                tag_pop();
                assert_eq!(tag_current(), tag(1));
                tag_pop();
                assert_eq!(tag_pop(), None, "the thread's own tags are not reached");
                tag_push(tag(8));
                drop(scope);
                assert_eq!(tag_pop(), Some(tag(7)));
                assert_eq!(tag_pop(), None);
            });
            assert_eq!(tag_current(), tag(2));
        });
    }

    #[test]
    fn tags_work_while_the_thread_is_torn_down() {
        struct Late(std::sync::mpsc::Sender<(Tag, bool, Tag)>);
        impl Drop for Late {
            fn drop(&mut self) {
                let before = tag_current();
                let pushed = tag_push(tag(3));
                self.0.send((before, pushed, tag_current())).unwrap();
            }
        }
        thread_local!(static LATE: Cell<Option<Late>> = const { Cell::new(None) });
        let (sender, receiver) = std::sync::mpsc::channel();
        alone(move || {
            LATE.set(Some(Late(sender)));
            tag_push(tag(2));
        });
        assert_eq!(receiver.recv().unwrap(), (tag(2), true, tag(3)));
    }
}
