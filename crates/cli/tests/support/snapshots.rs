//! PyTorch memory snapshots made by hand: values as JSON, written as the pickle that Python would make of them.

use serde_json::{Value, json};

/// The pickle of a value, protocol 4.
pub fn pickle(value: &Value) -> Vec<u8> {
    let mut out = vec![0x80, 4];
    put(value, &mut out);
    out.push(b'.');
    out
}

fn put(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(b'N'),
        Value::Bool(true) => out.push(0x88),
        Value::Bool(false) => out.push(0x89),
        Value::Number(number) => match number.as_i128() {
            Some(whole) => {
                out.extend([0x8a, 9]);
                out.extend(&whole.to_le_bytes()[..9]);
            }
            None => {
                out.push(b'G');
                out.extend(number.as_f64().unwrap().to_be_bytes());
            }
        },
        Value::String(text) => {
            out.push(b'X');
            out.extend((text.len() as u32).to_le_bytes());
            out.extend(text.as_bytes());
        }
        Value::Array(items) => {
            out.extend(b"](");
            items.iter().for_each(|item| put(item, out));
            out.push(b'e');
        }
        Value::Object(fields) => {
            out.extend(b"}(");
            for (key, value) in fields {
                put(&Value::String(key.clone()), out);
                put(value, out);
            }
            out.push(b'u');
        }
    }
}

/// A frame.
pub fn frame(function: &str, file: &str, line: u32) -> Value {
    json!({ "name": function, "filename": file, "line": line })
}

/// A snapshot of one device: what happened, and what is there afterwards.
pub fn snapshot(events: Vec<Value>, segments: Vec<Value>) -> Value {
    json!({ "segments": segments, "device_traces": [events], "allocator_settings": {}, "external_annotations": [] })
}

/// A segment of stream 0 with blocks of (bytes, requested bytes, state).
pub fn segment(address: u64, stream: u64, blocks: &[(u64, u64, &str)]) -> Value {
    let total: u64 = blocks.iter().map(|block| block.0).sum();
    let mut at = address;
    let mut list = Vec::new();
    for (bytes, requested, state) in blocks {
        list.push(json!({ "address": at, "size": bytes, "requested_size": requested, "state": state, "frames": [] }));
        at += bytes;
    }
    json!({
        "device": 0, "address": address, "total_size": total, "allocated_size": 0, "active_size": 0, "requested_size": 0,
        "stream": stream, "segment_type": "large", "segment_pool_id": [0, 0], "is_expandable": false, "frames": [],
        "blocks": list,
    })
}

/// An event.
pub fn event(action: &str, address: u64, bytes: u64, stream: u64, frames: Vec<Value>) -> Value {
    json!({ "action": action, "addr": address, "size": bytes, "stream": stream, "time_us": 0, "frames": frames })
}

/// A request that failed while the device had `free` bytes left.
pub fn out_of_memory(bytes: u64, free: u64, stream: u64, frames: Vec<Value>) -> Value {
    json!({ "action": "oom", "size": bytes, "stream": stream, "device_free": free, "time_us": 0, "frames": frames })
}
