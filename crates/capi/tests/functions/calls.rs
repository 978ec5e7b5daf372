//! The list: every function once, with arguments from a world.

use std::ptr;

use capi::*;

use crate::world::World;

/// A call of a function; those that answer with something else than a status count as fine.
type Call = fn(&World) -> gpumem_status;

macro_rules! calls {
    ($($name:ident: |$world:ident| $call:expr;)+) => {
        /// Every function by name.
        pub(crate) const CALLS: &[(&str, Call)] = &[$((stringify!($name), |$world| {
            // SAFETY: pointers are null or good for what the function does with them: see `World`.
            #[allow(unused_unsafe)]
            unsafe { $call }
        }),)+];
    };
}

calls! {
    gpumem_allocator_alloc: |world| {
        let block = world.out();
        let status = gpumem_allocator_alloc(world.allocator, 64, 0, 0, block);
        if status == GPUMEM_STATUS_OK { gpumem_allocator_free(world.allocator, *block, GPUMEM_STREAM_HOME) } else { status }
    };
    gpumem_allocator_alloc_tagged: |world| {
        let block = world.out();
        let status = gpumem_allocator_alloc_tagged(world.allocator, 64, 0, 0, world.sized(), block);
        if status == GPUMEM_STATUS_OK { gpumem_allocator_free(world.allocator, *block, GPUMEM_STREAM_HOME) } else { status }
    };
    gpumem_allocator_block: |world| gpumem_allocator_block(world.allocator, world.address(), world.sized());
    gpumem_allocator_budget_set: |world| gpumem_allocator_budget_set(world.allocator, 0, 0);
    gpumem_allocator_check: |world| gpumem_allocator_check(world.allocator);
    gpumem_allocator_check_guards: |world| gpumem_allocator_check_guards(world.allocator);
    gpumem_allocator_create: |world| {
        let made = world.out();
        let status = gpumem_allocator_create(world.device, world.sized(), made);
        if status == GPUMEM_STATUS_OK { gpumem_allocator_destroy(*made) } else { status }
    };
    gpumem_allocator_default: |world| gpumem_allocator_default(world.out());
    gpumem_allocator_destroy: |world| gpumem_allocator_destroy(world.allocator);
    gpumem_allocator_device: |world| {
        let made = world.out();
        let status = gpumem_allocator_device(world.allocator, made);
        if status == GPUMEM_STATUS_OK { gpumem_device_destroy(*made) } else { status }
    };
    gpumem_allocator_event_destroyed: |world| gpumem_allocator_event_destroyed(world.allocator, 0);
    gpumem_allocator_event_recorded: |world| gpumem_allocator_event_recorded(world.allocator, 0, 0);
    gpumem_allocator_event_synchronized: |world| gpumem_allocator_event_synchronized(world.allocator, 0);
    gpumem_allocator_event_waited: |world| gpumem_allocator_event_waited(world.allocator, 0, 0);
    gpumem_allocator_free: |world| gpumem_allocator_free(world.allocator, world.address(), 0);
    gpumem_allocator_on_out_of_memory: |world| gpumem_allocator_on_out_of_memory(world.allocator, None, ptr::null_mut(), None);
    gpumem_allocator_record_use: |world| gpumem_allocator_record_use(world.allocator, world.address(), 0);
    gpumem_allocator_release: |world| gpumem_allocator_release(world.allocator, world.address(), world.out());
    gpumem_allocator_retain: |world| gpumem_allocator_retain(world.allocator, world.address(), world.out());
    gpumem_allocator_settings: |world| gpumem_allocator_settings(world.allocator, world.out(), 64, world.out());
    gpumem_allocator_snapshot: |world| gpumem_allocator_snapshot(world.allocator, world.out(), 64, world.out());
    gpumem_allocator_snapshot_save: |world| gpumem_allocator_snapshot_save(world.allocator, world.text());
    gpumem_allocator_statistics: |world| gpumem_allocator_statistics(world.allocator, world.sized());
    gpumem_allocator_statistics_json: |world| gpumem_allocator_statistics_json(world.allocator, world.out(), 64, world.out());
    gpumem_allocator_step: |world| gpumem_allocator_step(world.allocator);
    gpumem_allocator_stream_destroyed: |world| gpumem_allocator_stream_destroyed(world.allocator, 0);
    gpumem_allocator_stream_waited: |world| gpumem_allocator_stream_waited(world.allocator, 0, 0);
    gpumem_allocator_synchronized: |world| gpumem_allocator_synchronized(world.allocator, 0);
    gpumem_allocator_trace_start: |world| gpumem_allocator_trace_start(world.allocator, world.text());
    gpumem_allocator_trace_stop: |world| gpumem_allocator_trace_stop(world.allocator);
    gpumem_allocator_trim: |world| gpumem_allocator_trim(world.allocator, 1 << 40, world.out());
    gpumem_allocator_use_done: |world| gpumem_allocator_use_done(world.allocator, world.address(), 0);
    gpumem_allocator_work_queued: |world| gpumem_allocator_work_queued(world.allocator, 0);
    gpumem_config_settings: |world| gpumem_config_settings(world.sized(), world.out(), 64, world.out());
    gpumem_device_copy: |world| gpumem_device_copy(world.device, world.address(), world.address(), 64, 0);
    gpumem_device_create: |world| {
        let made = world.out();
        let status = gpumem_device_create(world.sized(), made);
        if status == GPUMEM_STATUS_OK { gpumem_device_destroy(*made) } else { status }
    };
    gpumem_device_destroy: |world| gpumem_device_destroy(world.device);
    gpumem_device_event_create: |world| gpumem_device_event_create(world.device, world.out());
    gpumem_device_event_destroy: |world| gpumem_device_event_destroy(world.device, 0);
    gpumem_device_event_query: |world| gpumem_device_event_query(world.device, 0, world.out());
    gpumem_device_event_record: |world| gpumem_device_event_record(world.device, 0, 0);
    gpumem_device_event_synchronize: |world| gpumem_device_event_synchronize(world.device, 0);
    gpumem_device_event_wait: |world| gpumem_device_event_wait(world.device, 0, 0);
    gpumem_device_name: |world| gpumem_device_name(world.device, world.out(), 64, world.out());
    gpumem_device_query: |world| gpumem_device_query(world.device, world.sized());
    gpumem_device_read: |world| gpumem_device_read(world.device, world.address(), world.bytes(), 64);
    gpumem_device_stream_create: |world| gpumem_device_stream_create(world.device, world.out());
    gpumem_device_stream_destroy: |world| gpumem_device_stream_destroy(world.device, 0);
    gpumem_device_stream_query: |world| gpumem_device_stream_query(world.device, 0, world.out());
    gpumem_device_stream_synchronize: |world| gpumem_device_stream_synchronize(world.device, 0);
    gpumem_device_synchronize: |world| gpumem_device_synchronize(world.device);
    gpumem_device_write: |world| gpumem_device_write(world.device, world.address(), world.bytes(), 64);
    gpumem_graph_check: |world| gpumem_graph_check(world.graph);
    gpumem_graph_create: |world| {
        let made = world.out();
        let status = gpumem_graph_create(world.text(), made);
        if status == GPUMEM_STATUS_OK { gpumem_graph_destroy(*made) } else { status }
    };
    gpumem_graph_destroy: |world| gpumem_graph_destroy(world.graph);
    gpumem_graph_event_add: |world| gpumem_graph_event_add(world.graph, world.text(), world.out());
    gpumem_graph_load: |world| gpumem_graph_load(world.text(), world.out());
    gpumem_graph_loss_set: |world| gpumem_graph_loss_set(world.graph, 0);
    gpumem_graph_op_add: |world| gpumem_graph_op_add(world.graph, world.sized(), world.out());
    gpumem_graph_save: |world| gpumem_graph_save(world.graph, world.text());
    gpumem_graph_stream_add: |world| gpumem_graph_stream_add(world.graph, world.text(), world.out());
    gpumem_graph_tensor_add: |world| gpumem_graph_tensor_add(world.graph, world.sized(), world.out());
    gpumem_last_error: |_world| {
        gpumem_last_error();
        GPUMEM_STATUS_OK
    };
    gpumem_last_error_status: |_world| {
        gpumem_last_error_status();
        GPUMEM_STATUS_OK
    };
    gpumem_notice_commit: |world| gpumem_notice_commit(world.allocator, world.own_notice());
    gpumem_notice_drop: |world| gpumem_notice_drop(world.own_notice());
    gpumem_notice_event_synchronize: |world| {
        let made = world.out();
        let status = gpumem_notice_event_synchronize(world.allocator, 0, made);
        if status == GPUMEM_STATUS_OK { gpumem_notice_drop(*made) } else { status }
    };
    gpumem_notice_record: |world| {
        let made = world.out();
        let status = gpumem_notice_record(world.allocator, 0, 0, made);
        if status == GPUMEM_STATUS_OK { gpumem_notice_drop(*made) } else { status }
    };
    gpumem_notice_stream_wait: |world| {
        let made = world.out();
        let status = gpumem_notice_stream_wait(world.allocator, 0, 0, made);
        if status == GPUMEM_STATUS_OK { gpumem_notice_drop(*made) } else { status }
    };
    gpumem_notice_synchronize: |world| {
        let made = world.out();
        let status = gpumem_notice_synchronize(world.allocator, 0, made);
        if status == GPUMEM_STATUS_OK { gpumem_notice_drop(*made) } else { status }
    };
    gpumem_notice_unmodelled_record: |world| {
        let made = world.out();
        let status = gpumem_notice_unmodelled_record(world.allocator, 0, made);
        if status == GPUMEM_STATUS_OK { gpumem_notice_drop(*made) } else { status }
    };
    gpumem_notice_wait: |world| {
        let made = world.out();
        let status = gpumem_notice_wait(world.allocator, 0, 0, made);
        if status == GPUMEM_STATUS_OK { gpumem_notice_drop(*made) } else { status }
    };
    gpumem_op_number: |world| gpumem_op_number(world.text(), world.out());
    gpumem_plan_buffer_find: |world| gpumem_plan_buffer_find(world.plan, world.text(), world.out());
    gpumem_plan_buffer_name: |world| gpumem_plan_buffer_name(world.plan, 0, world.out(), 64, world.out());
    gpumem_plan_buffer_of: |world| gpumem_plan_buffer_of(world.plan, 0, world.out());
    gpumem_plan_create: |world| {
        let made = world.out();
        let status = gpumem_plan_create(world.graph, world.sized(), made);
        if status == GPUMEM_STATUS_OK { gpumem_plan_destroy(*made) } else { status }
    };
    gpumem_plan_create_for_buffers: |world| {
        let made = world.out();
        let status = gpumem_plan_create_for_buffers(world.out(), 1, size_of::<gpumem_buffer>(), world.sized(), made);
        if status == GPUMEM_STATUS_OK { gpumem_plan_destroy(*made) } else { status }
    };
    gpumem_plan_destroy: |world| gpumem_plan_destroy(world.plan);
    gpumem_plan_load: |world| gpumem_plan_load(world.text(), world.out());
    gpumem_plan_offset: |world| gpumem_plan_offset(world.plan, 0, world.out());
    gpumem_plan_placement: |world| gpumem_plan_placement(world.plan, 0, world.sized());
    gpumem_plan_query: |world| gpumem_plan_query(world.plan, world.sized());
    gpumem_plan_save: |world| gpumem_plan_save(world.plan, world.text());
    gpumem_plan_verify: |world| gpumem_plan_verify(world.plan, world.graph);
    gpumem_status_name: |_world| {
        gpumem_status_name(0);
        GPUMEM_STATUS_OK
    };
    gpumem_tag_current: |world| gpumem_tag_current(world.sized());
    gpumem_tag_pop: |_world| gpumem_tag_pop();
    gpumem_tag_push: |world| {
        let status = gpumem_tag_push(world.sized());
        if status == GPUMEM_STATUS_OK { gpumem_tag_pop() } else { status }
    };
    gpumem_tags_capture: |world| {
        let made = world.out();
        let status = gpumem_tags_capture(made);
        if status == GPUMEM_STATUS_OK { gpumem_tags_destroy(*made) } else { status }
    };
    gpumem_tags_destroy: |world| gpumem_tags_destroy(world.tags);
    gpumem_tags_enter: |world| {
        let status = gpumem_tags_enter(world.tags);
        if status == GPUMEM_STATUS_OK { gpumem_tags_leave() } else { status }
    };
    gpumem_tags_leave: |_world| gpumem_tags_leave();
    gpumem_version: |_world| {
        gpumem_version();
        GPUMEM_STATUS_OK
    };
    gpumem_version_text: |_world| {
        gpumem_version_text();
        GPUMEM_STATUS_OK
    };
}
