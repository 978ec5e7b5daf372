//! `gpumem verify` believes nobody.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::{Value, json};
use support::{Folder, example, shared, text_of};

/// A folder with the saved plan of an example.
fn planned(file: &str) -> Folder {
    let folder = Folder::new();
    folder.run(&format!("plan {file} --quiet --no-baselines --plan-out plan.json")).ok();
    folder
}

/// The placement with this name.
fn placement<'v>(plan: &'v mut Value, name: &str) -> &'v mut Value {
    let placements = plan["placements"].as_array_mut().unwrap();
    placements.iter_mut().find(|p| p["name"] == name || p["id"] == name).unwrap()
}

/// Changes the plan and expects that `verify` with these files answers no, in words that have all of `parts`.
fn is_found_wrong(folder: &Folder, file: &str, change: impl Fn(&mut Value), parts: &[&str]) {
    let mut plan = folder.json("plan.json");
    change(&mut plan);
    folder.write("tampered.json", plan.to_string());
    let ran = folder.run(&format!("verify tampered.json {file}"));
    let message = ran.no();
    println!("{message}");
    for part in parts {
        assert!(message.contains(part), "no {part:?} in {message}");
    }
}

#[test]
fn a_tampered_plan_is_found_wrong_without_the_graph() {
    let folder = planned(&example("two-streams.graph.json"));
    let peak = folder.json("plan.json")["peak_bytes"].as_u64().unwrap();
    let wrong = |change: &dyn Fn(&mut Value), parts: &[&str]| is_found_wrong(&folder, "", change, parts);
    let x = placement(&mut folder.json("plan.json"), "x").clone();
    wrong(&|plan| placement(plan, "h")["offset"] = x["offset"].clone(), &["`h`", "`x`", "overlap"]);
    wrong(&|plan| placement(plan, "loss")["offset"] = json!(peak * 256 + 1), &["`loss`", "not aligned to 256"]);
    wrong(&|plan| placement(plan, "loss")["offset"] = json!(peak * 256), &["peak"]);
    wrong(&|plan| plan["peak_bytes"] = json!(peak - 1), &["peak", &format!("{} bytes", peak - 1), &peak.to_string()]);
    wrong(&|plan| plan["max_load_bytes"] = json!(17), &["max load"]);
    wrong(&|plan| plan["lower_bound_bytes"] = json!(17), &["lower bound"]);
    wrong(&|plan| plan["lower_bound_bytes"] = json!(peak + 1), &["lower bound"]);
    wrong(&|plan| plan["status"] = json!("infeasible"), &["claims to be infeasible"]);
    wrong(&|plan| plan["capacity_bytes"] = json!(peak - 1), &["above its capacity"]);
    // A buffer that lives on under another one.
    wrong(&|plan| placement(plan, "h")["death"] = json!(28), &["`h`"]);
    // Only the streams keep these two apart.
    let d_w1 = placement(&mut folder.json("plan.json"), "d_w1").clone();
    wrong(&|plan| placement(plan, "next_x")["offset"] = d_w1["offset"].clone(), &["overlap"]);
}

#[test]
fn a_status_that_is_too_good_is_found_wrong() {
    // Sizes 3 and 2 leave a hole that a third buffer of 3 can't use: the pins keep the peak above the load.
    let folder = Folder::new();
    folder.write("pinned.csv", "id,lower,upper,size,offset\na,0,2,3,0\nb,0,4,2,3\nc,2,4,3,5\n");
    folder.run("plan pinned.csv --quiet --plan-out plan.json").ok();
    let plan = folder.json("plan.json");
    assert_eq!((&plan["peak_bytes"], &plan["max_load_bytes"]), (&json!(8), &json!(5)));
    let change = |plan: &mut Value| {
        plan["bound_kind"] = json!("load");
        plan["lower_bound_bytes"] = json!(5);
        plan["status"] = json!("optimal");
    };
    is_found_wrong(&folder, "", change, &["claims to be optimal", "above its lower bound"]);
}

#[test]
fn a_plan_of_another_graph_is_found_wrong() {
    let file = example("two-streams.graph.json");
    let folder = planned(&file);
    let wrong = |change: &dyn Fn(&mut Value), parts: &[&str]| is_found_wrong(&folder, &file, change, parts);
    // Each of these plans is right in itself.
    wrong(
        &|plan| placement(plan, "logits")["bytes"] = json!(10_000),
        &["`logits` (logits)", "10240 bytes", "10000 bytes"],
    );
    wrong(&|plan| placement(plan, "logits")["birth"] = json!(9), &["`logits` (logits)", "[8, 11)", "[9, 11)"]);
    wrong(
        &|plan| {
            // Taken out of the list with the pairs that name it, so that only the graph can tell.
            let placements = plan["placements"].as_array_mut().unwrap();
            let at = placements.iter().position(|p| p["name"] == "logits").unwrap() as u64;
            placements.remove(at as usize);
            let pairs = plan["separations"].as_array_mut().unwrap();
            pairs.retain(|pair| !pair.as_array().unwrap().contains(&json!(at)));
            for number in pairs.iter_mut().flat_map(|pair| pair.as_array_mut().unwrap()) {
                *number = json!(number.as_u64().unwrap() - u64::from(number.as_u64().unwrap() > at));
            }
        },
        &["`logits`", "missing"],
    );
    // On the bytes of a buffer that only the streams keep apart, and the pair that says so taken out.
    let d_w1 = placement(&mut folder.json("plan.json"), "d_w1").clone();
    let share = |plan: &mut Value| {
        placement(plan, "next_x")["offset"] = d_w1["offset"].clone();
        plan["separations"] = json!([]);
    };
    wrong(&share, &["share bytes"]);
    folder.run("verify tampered.json").ok();
    wrong(&|plan| plan["order"] = json!([1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]), &["\"fc1\"", "\"x\""]);
    wrong(&|plan| plan["order"] = json!([0, 1]), &["order", "14 ops"]);
    wrong(&|plan| placement(plan, "logits")["id"] = json!("1000"), &["`1000`", "isn't there"]);
    let other = example("example.dsa.csv");
    is_found_wrong(&folder, &other, |_| (), &["isn't there"]);
}

#[test]
fn a_row_that_is_missing_from_a_plan_is_found() {
    let folder = Folder::new();
    folder.write("all.csv", "id,lower,upper,size\na,0,100,10\nb,0,100,10\nc,90,91,1\n");
    folder.write("fewer.csv", "id,lower,upper,size\na,0,100,10\nc,90,91,1\n");
    folder.run("plan fewer.csv --quiet --plan-out plan.json").ok();
    folder.run("verify plan.json fewer.csv").ok();
    assert!(folder.run("verify plan.json all.csv").no().contains("`b`"));
    // A plan of some tiers leaves the others out, and that is said.
    folder.run("plan all.csv --quiet --tiers cyclic --plan-out cyclic.json").ok();
    assert!(folder.run("verify cyclic.json all.csv").ok().stdout.contains("1 buffers of tiers the plan leaves out"));
    // A plan without tiers of its own: somebody's offsets.
    folder.write("offsets.csv", "id,lower,upper,size,offset\na,0,100,10,0\nc,90,91,1,10\n");
    assert!(folder.run("verify offsets.csv all.csv").no().contains("`b`"));
}

#[test]
fn pins_are_obeyed_unless_they_were_released() {
    let folder = Folder::new();
    folder.write("pins.csv", "id,lower,upper,size,offset\na,0,2,10,100\nb,1,3,10,\n");
    folder.run("plan pins.csv --quiet --ignore-offsets --plan-out free.json").ok();
    assert!(folder.run("verify free.json pins.csv").no().contains("`a` is pinned at 100"));
    folder.run("verify free.json pins.csv --ignore-offsets").ok();
    folder.run("plan pins.csv --quiet --plan-out plan.json").ok();
    folder.run("verify plan.json pins.csv").ok();
}

#[test]
fn what_is_no_plan_is_bad_input() {
    let folder = Folder::new();
    let graph = example("two-streams.graph.json");
    let message = folder.run(&format!("verify {graph}")).refusal();
    assert!(message.contains("not a plan but gpumem-graph/1"), "{message}");
    folder.write("some.csv", "id,lower,upper,size,offset\na,0,2,10,0\nb,1,3,10,\n");
    assert!(folder.run("verify some.csv").refusal().contains("only some rows"));
    folder.write("overlap.csv", "id,lower,upper,size,offset\na,0,2,10,0\nb,1,3,10,5\n");
    let message = folder.run("verify overlap.csv").no();
    assert!(message.contains("`a` and `b` overlap in bytes [5, 10) at time 1"), "{message}");
}

#[test]
fn an_order_for_memory_is_derived_anew_and_checked() {
    let Some(folder) = shared("graphs/torch") else { return };
    let file = text_of(&folder.join("torch-resnet50-b64-fp32.graph.json.gz"));
    let folder = Folder::new();
    folder.run(&format!("plan {file} --order memory --quiet --no-baselines --plan-out plan.json.zst")).ok();
    let said = folder.run(&format!("verify plan.json.zst {file}")).ok().stdout;
    assert!(said.contains("none overlapping") && said.contains("and no other"), "{said}");
}

#[test]
fn an_invented_pin_does_not_certify_a_bound() {
    let folder = Folder::new();
    folder.write("a.csv", "id,lower,upper,size\na,0,2,64\nb,1,3,32\n");
    folder.run("plan a.csv -q --plan-out p.json").ok();
    let mut plan = folder.json("p.json");
    plan["placements"][1]["fixed"] = true.into();
    plan["placements"][1]["offset"] = 6400.into();
    plan["peak_bytes"] = 6432.into();
    plan["lower_bound_bytes"] = 6432.into();
    plan["bound_kind"] = "fixed".into();
    folder.write("k.json", plan.to_string());
    let message = folder.run("verify k.json a.csv").no();
    assert!(message.contains("`b` is not pinned there"), "{message}");
}
