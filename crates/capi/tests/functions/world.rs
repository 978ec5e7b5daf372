//! What a call needs: handles, texts, places for results; all null, or all good, or wrong in one way.

use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_char, c_void};
use std::ptr;

use capi::*;

/// Everything that the calls of the list take.
pub(crate) struct World {
    is_null: bool,
    size_change: isize,
    asked_for_sized: Cell<bool>,
    #[allow(clippy::vec_box)] // their addresses are handed out, and must stay
    places: RefCell<Vec<Box<[u64; 160]>>>,
    text: CString,
    pub(crate) allocator: *mut gpumem_allocator,
    pub(crate) device: *mut gpumem_device,
    pub(crate) graph: *mut gpumem_graph,
    pub(crate) plan: *mut gpumem_plan,
    pub(crate) tags: *mut gpumem_tags,
    pub(crate) notice: *mut gpumem_notice,
}

/// The handles as numbers, which may go to other threads.
pub(crate) struct Tokens([usize; 5]);

impl World {
    pub(crate) fn of_nulls() -> Self {
        Self {
            is_null: true,
            size_change: 0,
            asked_for_sized: Cell::new(false),
            places: RefCell::default(),
            text: CString::new("no such folder/file").unwrap(),
            allocator: ptr::null_mut(),
            device: ptr::null_mut(),
            graph: ptr::null_mut(),
            plan: ptr::null_mut(),
            tags: ptr::null_mut(),
            notice: ptr::null_mut(),
        }
    }

    pub(crate) fn new() -> Self {
        let mut world = Self { is_null: false, ..Self::of_nulls() };
        let buffer = gpumem_buffer { birth: 0, death: 1, bytes: 64, alignment: 0, fixed_offset: GPUMEM_UNSET };
        let name = c"sim";
        let mut config = gpumem_config {
            struct_size: size_of::<gpumem_config>(),
            settings: ptr::null(),
            device: name.as_ptr(),
            capacity_bytes: 1 << 30,
            hard_budget_bytes: GPUMEM_UNSET,
            soft_budget_bytes: GPUMEM_UNSET,
            initial_bytes: GPUMEM_UNSET,
            guard: 0,
            separate_precisions: 0,
        };
        // SAFETY: all pointers are good or null.
        unsafe {
            assert_eq!(gpumem_device_create(&config, &mut world.device), GPUMEM_STATUS_OK);
            config.device = ptr::null();
            assert_eq!(gpumem_allocator_create(world.device, &config, &mut world.allocator), GPUMEM_STATUS_OK);
            assert_eq!(gpumem_graph_create(ptr::null(), &mut world.graph), GPUMEM_STATUS_OK);
            let size = size_of::<gpumem_buffer>();
            let planned = gpumem_plan_create_for_buffers(&buffer, 1, size, ptr::null(), &mut world.plan);
            assert_eq!(planned, GPUMEM_STATUS_OK);
            assert_eq!(gpumem_tags_capture(&mut world.tags), GPUMEM_STATUS_OK);
            world.notice = world.new_notice();
        }
        world
    }

    fn new_notice(&self) -> *mut gpumem_notice {
        let mut notice = ptr::null_mut();
        // SAFETY: all pointers are good.
        assert_eq!(unsafe { gpumem_notice_synchronize(self.allocator, 0, &mut notice) }, GPUMEM_STATUS_OK);
        notice
    }

    /// Each handle in the place of another kind's.
    pub(crate) fn with_handles_mixed_up(&self) -> Self {
        Self {
            is_null: false,
            allocator: self.device.cast(),
            device: self.graph.cast(),
            graph: self.plan.cast(),
            plan: self.tags.cast(),
            tags: self.notice.cast(),
            notice: self.allocator.cast(),
            ..Self::of_nulls()
        }
    }

    /// All struct sizes are wrong by so much.
    pub(crate) fn with_size_change(self, size_change: isize) -> Self {
        Self { size_change, ..self }
    }

    pub(crate) fn tokens(&self) -> Tokens {
        Tokens([self.allocator.addr(), self.device.addr(), self.graph.addr(), self.plan.addr(), self.tags.addr()])
    }

    /// The same handles with places of its own, and a notice of its own for each call that takes one.
    pub(crate) fn from_tokens(tokens: &Tokens) -> Self {
        let [allocator, device, graph, plan, tags] = tokens.0;
        Self {
            is_null: false,
            allocator: ptr::without_provenance_mut(allocator),
            device: ptr::without_provenance_mut(device),
            graph: ptr::without_provenance_mut(graph),
            plan: ptr::without_provenance_mut(plan),
            tags: ptr::without_provenance_mut(tags),
            ..Self::of_nulls()
        }
    }

    pub(crate) fn destroy(&self) {
        // SAFETY: the handles are good, and used no more.
        unsafe {
            assert_eq!(gpumem_notice_drop(self.notice), GPUMEM_STATUS_OK);
            assert_eq!(gpumem_allocator_destroy(self.allocator), GPUMEM_STATUS_OK);
            assert_eq!(gpumem_device_destroy(self.device), GPUMEM_STATUS_OK);
            assert_eq!(gpumem_graph_destroy(self.graph), GPUMEM_STATUS_OK);
            assert_eq!(gpumem_plan_destroy(self.plan), GPUMEM_STATUS_OK);
            assert_eq!(gpumem_tags_destroy(self.tags), GPUMEM_STATUS_OK);
        }
    }

    /// A notice that isn't anybody else's.
    pub(crate) fn own_notice(&self) -> *mut gpumem_notice {
        let is_shared = !self.is_null && self.notice.is_null();
        if is_shared { self.new_notice() } else { self.notice }
    }

    /// A place for a result.
    pub(crate) fn out<T>(&self) -> *mut T {
        assert!(size_of::<T>() <= 1280 && align_of::<T>() <= 8);
        if self.is_null {
            return ptr::null_mut();
        }
        let mut places = self.places.borrow_mut();
        places.push(Box::new([0; 160]));
        places.last_mut().unwrap().as_mut_ptr().cast()
    }

    /// A struct that begins with its size, all else zero.
    pub(crate) fn sized<T>(&self) -> *mut T {
        let place = self.out::<T>();
        if !place.is_null() {
            self.asked_for_sized.set(true);
            let size = size_of::<T>().wrapping_add_signed(self.size_change);
            // SAFETY: the place is ours, aligned to 8 bytes, and larger than a usize.
            unsafe { place.cast::<usize>().write(size) }
        }
        place
    }

    /// Whether `sized` was asked for since the last time.
    pub(crate) fn take_sized(&self) -> bool {
        self.asked_for_sized.replace(false)
    }

    pub(crate) fn text(&self) -> *const c_char {
        if self.is_null { ptr::null() } else { self.text.as_ptr() }
    }

    /// Some address that no allocator knows.
    pub(crate) fn address(&self) -> *mut c_void {
        if self.is_null { ptr::null_mut() } else { ptr::without_provenance_mut(0x5000) }
    }

    /// Bytes that a call may write or read.
    pub(crate) fn bytes(&self) -> *mut c_void {
        self.out::<[u64; 160]>().cast()
    }

    pub(crate) fn takes_no_handle(&self, name: &str) -> bool {
        let without = [
            "gpumem_allocator_create",
            "gpumem_allocator_default",
            "gpumem_config_settings",
            "gpumem_device_create",
            "gpumem_graph_create",
            "gpumem_graph_load",
            "gpumem_last_error",
            "gpumem_last_error_status",
            "gpumem_op_number",
            "gpumem_plan_create_for_buffers",
            "gpumem_plan_load",
            "gpumem_status_name",
            "gpumem_tag_current",
            "gpumem_tag_pop",
            "gpumem_tag_push",
            "gpumem_tags_capture",
            "gpumem_tags_leave",
            "gpumem_version",
            "gpumem_version_text",
        ];
        without.contains(&name)
    }
}
