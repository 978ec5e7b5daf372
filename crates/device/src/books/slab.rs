//! Things by id, where an id never names two things.

/// Values by id. The lower half of an id is a place, the upper half says how often the place was used before.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Slab<T> {
        Slab { places: Vec::new(), free: Vec::new() }
    }

    /// Keeps a value and says its id; `None` when all 2^32 places are taken.
    pub(crate) fn insert(&mut self, value: T) -> Option<u64> {
        if let Some(place) = self.free.pop() {
            let (generation, held) = self.places.get_mut(place as usize)?;
            *held = Some(value);
            return Some(join(place, *generation));
        }
        let place = u32::try_from(self.places.len()).ok()?;
        self.places.push((0, Some(value)));
        Some(join(place, 0))
    }

    pub(crate) fn get(&self, id: u64) -> Option<&T> {
        let (place, generation) = split(id);
        let (current, value) = self.places.get(place as usize)?;
        if *current == generation { value.as_ref() } else { None }
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        let (place, generation) = split(id);
        let (current, value) = self.places.get_mut(place as usize)?;
        if *current == generation { value.as_mut() } else { None }
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<T> {
        let (place, generation) = split(id);
        let (current, value) = self.places.get_mut(place as usize)?;
        if *current != generation {
            return None;
        }
        let removed = value.take()?;
        // A place whose generations are used up is left alone, so that no id ever comes twice.
        if let Some(next) = current.checked_add(1) {
            *current = next;
            self.free.push(place);
        }
        Some(removed)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.places.iter().enumerate().filter_map(|(place, (generation, value))| {
            Some((join(u32::try_from(place).ok()?, *generation), value.as_ref()?))
        })
    }
}

pub(crate) fn join(place: u32, generation: u32) -> u64 {
    (u64::from(generation) << 32) | u64::from(place)
}

pub(crate) fn split(id: u64) -> (u32, u32) {
    // The cast keeps the lower half, which is the place.
    (id as u32, (id >> 32) as u32)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_id_never_names_two_things() {
        let mut slab = Slab::new();
        let first = slab.insert('a').unwrap();
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert('b').unwrap();
        assert_ne!(first, second);
        assert_eq!((slab.get(first), slab.get(second)), (None, Some(&'b')));
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(second, &'b')]);
    }
}
