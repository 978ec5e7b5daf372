//! Which events of a device are shown.

use records::{Action, DeviceHistory, History};

use super::options::HistoryOptions;
use crate::Error;

/// Events `[from, to)` of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// First event.
    pub(crate) from: u64,
    /// Event after the last.
    pub(crate) to: u64,
}

impl Window {
    /// How many moments the window has: the state before its first event, and that after each.
    pub(crate) fn moments(self) -> u32 {
        // `shown` refuses more events than 32 bits count.
        u32::try_from(self.to - self.from + 1).unwrap_or(u32::MAX)
    }

    /// A moment of the whole record as one of the window; what comes later than its end is just after it.
    pub(crate) fn moment(self, moment: u64) -> u32 {
        let inside = moment.clamp(self.from, self.to.saturating_add(1)) - self.from;
        u32::try_from(inside).unwrap_or(u32::MAX)
    }
}

/// The devices to be shown, each with its events.
///
/// # Errors
/// Refuses a device that isn't there, a window without any event where there are some, and more events than the
/// options allow.
pub(crate) fn shown<'a>(
    history: &'a History,
    options: &HistoryOptions,
) -> Result<Vec<(&'a DeviceHistory, Window)>, Error> {
    if let Some(wanted) = &options.devices
        && let Some(&device) = wanted.iter().find(|device| history.devices.iter().all(|d| d.device != **device))
    {
        return Err(Error::NoSuchDevice { device, devices: history.devices.iter().map(|d| d.device).collect() });
    }
    let is_wanted = |device: u32| options.devices.as_ref().is_none_or(|wanted| wanted.contains(&device));
    let devices: Vec<&DeviceHistory> = history.devices.iter().filter(|d| is_wanted(d.device)).collect();
    let found: Vec<_> = devices.iter().filter_map(|d| window(d, options).map(|window| (*d, window))).collect();
    if found.is_empty() && !devices.is_empty() {
        return Err(Error::NothingInRange {
            from: options.from,
            to: options.to,
            steps: options.steps,
            events: devices.iter().map(|d| d.events.len() as u64).max().unwrap_or(0),
            step_count: devices.iter().map(|d| marks(d).count() as u64).max().unwrap_or(0),
        });
    }
    let events: u64 = found.iter().map(|(_, window)| window.to - window.from).sum();
    let limit = options.max_events.min(u64::from(u32::MAX) - 2);
    if events > limit {
        return Err(Error::TooManyEvents { events, limit });
    }
    Ok(found)
}

/// Numbers of the step events of a device.
fn marks(device: &DeviceHistory) -> impl Iterator<Item = u64> + '_ {
    (0..).zip(&device.events).filter(|(_, event)| event.action == Action::Step).map(|(number, _)| number)
}

/// The window of one device; `None` if nothing of it is to be shown.
fn window(device: &DeviceHistory, options: &HistoryOptions) -> Option<Window> {
    let count = device.events.len() as u64;
    let (mut from, mut to) = (options.from.unwrap_or(0), options.to.unwrap_or(count).min(count));
    if let Some((first, last)) = options.steps {
        let marks: Vec<u64> = marks(device).collect();
        if marks.is_empty() || first > last {
            return None;
        }
        // Step k lies behind mark k-1 and ends with mark k; what comes after the last mark is a step too.
        let start = match first {
            0 => 0,
            first => marks.get(usize::try_from(first - 1).ok()?)? + 1,
        };
        let end = usize::try_from(last).ok().and_then(|last| marks.get(last)).map_or(count, |mark| mark + 1);
        (from, to) = (from.max(start), to.min(end));
    }
    // A device on which nothing happened still has a state.
    let is_plain = options.from.is_none() && options.to.is_none() && options.steps.is_none();
    (from < to || (is_plain && count == 0)).then_some(Window { from, to })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use records::Event;

    use super::*;

    fn history() -> History {
        let actions = [Action::Alloc, Action::Step, Action::Alloc, Action::Alloc, Action::Step, Action::Alloc];
        let events = actions.map(|action| Event { action, ..Event::default() }).to_vec();
        let device = DeviceHistory { device: 3, events, ..DeviceHistory::default() };
        History { devices: vec![device], ..History::default() }
    }

    fn found(change: impl FnOnce(&mut HistoryOptions)) -> Result<Vec<(u64, u64)>, Error> {
        let mut options = HistoryOptions::default();
        change(&mut options);
        let history = history();
        Ok(shown(&history, &options)?.into_iter().map(|(_, window)| (window.from, window.to)).collect())
    }

    #[test]
    fn events_and_steps_choose_what_is_shown() {
        assert_eq!(found(|_| ()).unwrap(), [(0, 6)]);
        assert_eq!(found(|o| (o.from, o.to) = (Some(2), Some(4))).unwrap(), [(2, 4)]);
        assert_eq!(found(|o| o.steps = Some((0, 0))).unwrap(), [(0, 2)]);
        assert_eq!(found(|o| o.steps = Some((1, 1))).unwrap(), [(2, 5)]);
        assert_eq!(found(|o| o.steps = Some((2, 9))).unwrap(), [(5, 6)]);
        assert_eq!(found(|o| (o.from, o.steps) = (Some(3), Some((1, 1)))).unwrap(), [(3, 5)]);
    }

    #[test]
    fn what_is_not_there_is_refused_with_what_is() {
        let text = found(|o| o.devices = Some(vec![0])).unwrap_err().to_string();
        assert!(text.contains("device 0") && text.contains('3'), "{text}");
        let text = found(|o| o.from = Some(6)).unwrap_err().to_string();
        assert!(text.contains("6 events"), "{text}");
        let text = found(|o| o.steps = Some((7, 8))).unwrap_err().to_string();
        assert!(text.contains("2 step"), "{text}");
        let text = found(|o| o.max_events = 5).unwrap_err().to_string();
        assert!(text.contains("6 events") && text.contains('5'), "{text}");
    }
}
