//! Would it have passed? The recorded requests, replayed under policies and settings that people try.

use records::{DeviceHistory, History, Operation, TightRequest, Trace};
use replay::{CachingSettings, Outcome, Policy, Program, Settings, min_capacity, replay};
use serde::Serialize;

use super::facts::Facts;
use super::requests::{Frees, requests};
use crate::progress::Spinner;
use crate::recording::Recording;

/// Most rows for which the least capacity is searched: that takes some fifteen replays each.
const SEARCHED_ROWS: usize = 60_000;
/// What people set `max_split_size_mb` and `roundup_power2_divisions` to.
const SPLITS_MIB: [u64; 4] = [64, 128, 256, 512];
const DIVISIONS: [u32; 3] = [4, 8, 16];

/// What came of all replays.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Trials {
    /// The capacity they were given; absent where no limit is known.
    pub(super) capacity_bytes: Option<u64>,
    /// How many requests the replayed part has, the failed one included.
    pub(super) requests: u64,
    pub(super) trials: Vec<Trial>,
    /// Why there are none.
    pub(super) missing: Option<String>,
    /// What to bear in mind.
    pub(super) notes: Vec<String>,
}

/// One replay.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Trial {
    pub(super) name: String,
    /// Whether it is a variant of the one without settings above it.
    #[serde(skip)]
    pub(super) is_variant: bool,
    /// How to get it, for people; absent where there is no setting for it and it only shows what is possible.
    pub(super) how: Option<String>,
    /// Whether the run was recorded with this setting, as far as the file says.
    pub(super) is_recorded: bool,
    pub(super) passes: bool,
    pub(super) peak_reserved_bytes: u64,
    pub(super) min_capacity_bytes: Option<u64>,
    pub(super) failed: Option<FailedTrial>,
}

impl Trial {
    /// The less the better: what it needs, then what it reserves.
    fn order(&self) -> (u64, u64) {
        (self.min_capacity_bytes.unwrap_or(self.peak_reserved_bytes), self.peak_reserved_bytes)
    }
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct FailedTrial {
    /// Which request, counted from 1.
    pub(super) request: u64,
    pub(super) bytes: u64,
    pub(super) live_bytes: u64,
    pub(super) reserved_bytes: u64,
    pub(super) largest_free_bytes: u64,
}

impl Trials {
    /// None were made.
    pub(super) fn not_run(reason: &str) -> Self {
        Self { missing: Some(reason.to_owned()), ..Self::default() }
    }

    /// Settings that make it pass, those that need least first; none if what was recorded passes as well, for then they show
    /// nothing.
    pub(super) fn helpful(&self) -> Vec<&Trial> {
        if self.capacity_bytes.is_none() || self.trials.iter().any(|trial| trial.is_recorded && trial.passes) {
            return Vec::new();
        }
        let mut helpful: Vec<&Trial> = self.trials.iter().filter(|t| t.how.is_some() && t.passes).collect();
        helpful.sort_by_key(|trial| trial.order());
        helpful
    }

    /// Where nothing is shown by passing: settings that need at least a hundredth less than what was recorded, those that
    /// need least first, and by how much less.
    pub(super) fn thriftier(&self) -> Vec<(&Trial, u64)> {
        let recorded = self.trials.iter().find(|trial| trial.is_recorded);
        let Some(recorded) = recorded.filter(|trial| trial.passes || self.capacity_bytes.is_none()) else {
            return Vec::new();
        };
        let Some(needs) = recorded.min_capacity_bytes else { return Vec::new() };
        let saving = |trial: &Trial| needs.checked_sub(trial.min_capacity_bytes?).filter(|less| *less > needs / 100);
        let settings = self.trials.iter().filter(|trial| trial.how.is_some());
        let mut thriftier: Vec<(&Trial, u64)> =
            settings.filter_map(|trial| saving(trial).map(|less| (trial, less))).collect();
        thriftier.sort_by_key(|(trial, _)| trial.order());
        thriftier
    }
}

/// A policy with settings, under the name people know.
struct Setting {
    name: String,
    is_variant: bool,
    how: Option<String>,
    policy: Policy,
    caching: CachingSettings,
    frees: Frees,
}

fn settings(history: &History) -> Vec<Setting> {
    let plain = |name: &str, policy| Setting {
        name: name.to_owned(),
        is_variant: false,
        how: None,
        policy,
        caching: CachingSettings::default(),
        frees: Frees::AsRecorded,
    };
    let variant = |setting: String, policy, caching| Setting {
        is_variant: true,
        how: Some(format!("Set PYTORCH_CUDA_ALLOC_CONF={setting}")),
        caching,
        ..plain(&setting, policy)
    };
    let default = CachingSettings::default();
    let mut all = vec![
        plain("PyTorch's default", Policy::Caching),
        variant("expandable_segments:True".to_owned(), Policy::CachingExpandable, default),
    ];
    all.extend(SPLITS_MIB.into_iter().map(|mib| {
        let caching = CachingSettings { max_split_bytes: Some(mib << 20), ..default };
        variant(format!("max_split_size_mb:{mib}"), Policy::Caching, caching)
    }));
    all.extend(DIVISIONS.into_iter().map(|divisions| {
        let caching = CachingSettings { roundup_power2_divisions: divisions, ..default };
        variant(format!("roundup_power2_divisions:{divisions}"), Policy::Caching, caching)
    }));
    if let Some((policy, caching)) = recorded_settings(history)
        && !all.iter().any(|setting| (setting.policy, setting.caching) == (policy, caching))
    {
        all.push(Setting { is_variant: true, caching, ..plain("the run's own settings", policy) });
    }
    let at_once = plain("frees that take effect at once", Policy::Caching);
    all.push(Setting { is_variant: true, frees: Frees::AtOnce, ..at_once });
    all.push(plain("gpumem's allocator", Policy::Gpumem));
    all.push(plain("one arena, best fit", Policy::BestFit));
    all.push(plain("one arena, first fit", Policy::FirstFit));
    all
}

impl Setting {
    /// Whether a run with these stated settings was one of this kind.
    fn is_recorded(&self, history: &History) -> bool {
        self.frees == Frees::AsRecorded && recorded_settings(history) == Some((self.policy, self.caching))
    }
}

/// What a run was recorded with, as far as the file says; `None` if that is nothing the models can do.
fn recorded_settings(history: &History) -> Option<(Policy, CachingSettings)> {
    let stated = |key: &str| history.settings.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str());
    let is_expandable = stated("expandable_segments").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    // torch states no limit as -1 or as the highest number there is; a limit is above 20 MiB.
    let max_split = stated("max_split_size").and_then(|value| value.parse::<u64>().ok());
    let max_split_bytes = max_split.filter(|bytes| (20 << 20) < *bytes && *bytes < 1 << 62);
    let divisions = history.settings.iter().filter(|(key, _)| key.starts_with("roundup_power2_divisions."));
    let mut divisions = divisions.map(|(_, value)| value.parse::<u32>().ok().map(|n| if n <= 1 { 0 } else { n }));
    // One number for each size class: the models have one for all.
    let roundup_power2_divisions = divisions.next().unwrap_or(Some(0))?;
    if divisions.any(|other| other != Some(roundup_power2_divisions)) {
        return None;
    }
    let policy = if is_expandable { Policy::CachingExpandable } else { Policy::Caching };
    let is_possible = roundup_power2_divisions == 0 || roundup_power2_divisions.is_power_of_two();
    is_possible.then(|| (policy, CachingSettings { max_split_bytes, roundup_power2_divisions, ..Default::default() }))
}

/// Replays the requests up to and with the one that failed; of a trace, all of them.
pub(super) fn try_all(
    recording: &Recording,
    device: &DeviceHistory,
    request: &TightRequest,
    facts: &Facts,
    spinner: &Spinner,
) -> Trials {
    let capacity_bytes = Some(facts.limit.bytes).filter(|_| facts.limit.source != "reserved_before");
    let recorded = [Frees::AsRecorded, Frees::AtOnce].map(|frees| match &recording.trace {
        Some(_) => Trace::default(),
        None => requests(device, request, frees),
    });
    let trace_of = |frees| match (&recording.trace, frees) {
        (Some(trace), _) => trace,
        (None, Frees::AsRecorded) => &recorded[0],
        (None, Frees::AtOnce) => &recorded[1],
    };
    let number = if recording.trace.is_some() { device.device } else { 0 };
    let mut trials = Trials {
        capacity_bytes,
        requests: (trace_of(Frees::AsRecorded).rows.iter())
            .filter(|row| row.operation == Operation::Alloc && row.device == number)
            .count() as u64,
        ..Trials::default()
    };
    let has_pending = facts.sums.pending_bytes > 0 && recording.trace.is_none();
    let wanted: Vec<Setting> = settings(&recording.history)
        .into_iter()
        .filter(|setting| setting.frees == Frees::AsRecorded || has_pending)
        .collect();
    for (index, setting) in wanted.iter().enumerate() {
        spinner.say(&format!("replaying, {} of {}: {}", index + 1, wanted.len(), setting.name));
        let trace = trace_of(setting.frees);
        match try_one(trace, number, setting, capacity_bytes) {
            Ok((outcome, min_capacity_bytes)) => {
                let failed = outcome.failed.map(|failed| FailedTrial {
                    request: outcome.all.allocs + 1,
                    bytes: failed.bytes,
                    live_bytes: failed.live_bytes,
                    reserved_bytes: failed.reserved_bytes,
                    largest_free_bytes: failed.largest_free_bytes,
                });
                trials.trials.push(Trial {
                    name: setting.name.clone(),
                    is_variant: setting.is_variant,
                    how: setting.how.clone(),
                    is_recorded: setting.is_recorded(&recording.history),
                    passes: outcome.is_ok(),
                    peak_reserved_bytes: outcome.all.peak_reserved_bytes,
                    min_capacity_bytes,
                    failed,
                });
            }
            Err(error) => return Trials::not_run(&format!("The requests can't be replayed: {error}.")),
        }
    }
    trials.notes = notes(recording, device, &trials, has_pending);
    trials
}

fn try_one(
    trace: &Trace,
    device: u32,
    setting: &Setting,
    capacity_bytes: Option<u64>,
) -> replay::Result<(Outcome, Option<u64>)> {
    let program = Program::new(trace, Some(device))?;
    let settings = Settings {
        capacity_bytes,
        caching: setting.caching,
        measures_fragmentation: false,
        models_time: false,
        checks_order: false,
        ..Settings::new(setting.policy)
    };
    let outcome = replay(&program, &settings)?;
    let least = match trace.rows.len() <= SEARCHED_ROWS {
        true => min_capacity(&program, &settings, |_| {})?,
        false => None,
    };
    Ok((outcome, least))
}

fn notes(recording: &Recording, device: &DeviceHistory, trials: &Trials, has_pending: bool) -> Vec<String> {
    let mut notes = Vec::new();
    notes.push("Simulated, not measured: models of others' allocators, and gpumem's itself.".to_owned());
    if recording.trace.is_none() {
        if device.start.iter().any(|segment| !segment.blocks.is_empty()) {
            notes.push(
                "Blocks from before the record are laid side by side first: holes between them are not in it."
                    .to_owned(),
            );
        }
        if has_pending {
            notes.push("A block that streams held can be handed out again when it could in the recording.".to_owned());
        }
    }
    let recorded_passes = trials.trials.iter().any(|trial| trial.is_recorded && trial.passes);
    if trials.capacity_bytes.is_some() && recorded_passes && recording.trace.is_none() {
        notes.push(
            "The model of what was recorded passes as well, so a fresh start may be all it takes: the failure comes from \
             holes that were made before the record began, or from what the file doesn't say."
                .to_owned(),
        );
    }
    notes
}
