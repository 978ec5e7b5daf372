//! What a request says about itself.

/// How long a block is expected to live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Tier {
    /// Within one step.
    #[default]
    Temporary = 0,
    /// Comes back every step.
    Cyclic = 1,
    /// Lives across steps.
    Persistent = 2,
}

impl Tier {
    /// Every tier; a tier's number is its place here.
    pub const ALL: [Self; 3] = [Self::Temporary, Self::Cyclic, Self::Persistent];

    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Temporary => "temporary",
            Self::Cyclic => "cyclic",
            Self::Persistent => "persistent",
        }
    }
}

/// What kind of numbers a block holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Precision {
    /// Not said.
    #[default]
    Unknown = 0,
    /// 64-bit floats.
    Fp64 = 1,
    /// 32-bit floats.
    Fp32 = 2,
    /// 32-bit floats multiplied with 19 bits.
    Tf32 = 3,
    /// 16-bit IEEE floats.
    Fp16 = 4,
    /// 16-bit floats with the range of 32.
    Bf16 = 5,
    /// 8-bit floats, either kind.
    Fp8 = 6,
    /// 4-bit floats.
    Fp4 = 7,
    /// 64-bit integers.
    Int64 = 8,
    /// 32-bit integers.
    Int32 = 9,
    /// 16-bit integers.
    Int16 = 10,
    /// 8-bit integers.
    Int8 = 11,
    /// Booleans.
    Bool = 12,
}

impl Precision {
    /// Every precision; a precision's number is its place here.
    pub const ALL: [Self; 13] = [
        Self::Unknown,
        Self::Fp64,
        Self::Fp32,
        Self::Tf32,
        Self::Fp16,
        Self::Bf16,
        Self::Fp8,
        Self::Fp4,
        Self::Int64,
        Self::Int32,
        Self::Int16,
        Self::Int8,
        Self::Bool,
    ];

    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Fp64 => "fp64",
            Self::Fp32 => "fp32",
            Self::Tf32 => "tf32",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Fp4 => "fp4",
            Self::Int64 => "int64",
            Self::Int32 => "int32",
            Self::Int16 => "int16",
            Self::Int8 => "int8",
            Self::Bool => "bool",
        }
    }
}

/// What a request says about itself. Two words, so that it travels for free; names are numbers of `op_number` and of the
/// caller's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag {
    /// How long the block is expected to live.
    pub tier: Tier,
    /// What kind of numbers it holds.
    pub precision: Precision,
    /// Which operator asks: a number that `op_number` gave to its name; 0 is none.
    pub op: u32,
    /// Who it belongs to, by a number of the caller's choice; 0 is nobody.
    pub owner: u32,
}

impl Tag {
    /// The tag in one word, as blocks keep it: tier, precision, operator, owner from the lowest bits on. Operators beyond
    /// 65 535, which no name has, become that number.
    #[inline]
    pub(crate) const fn pack(self) -> u64 {
        let op = if self.op > 0xffff { 0xffff } else { self.op };
        self.tier as u64 | (self.precision as u64) << 8 | (op as u64) << 16 | (self.owner as u64) << 32
    }

    /// The tag of a word.
    pub(crate) fn unpack(word: u64) -> Self {
        Self {
            tier: Tier::ALL.get((word & 0xff) as usize).copied().unwrap_or_default(),
            precision: Precision::ALL.get((word >> 8 & 0xff) as usize).copied().unwrap_or_default(),
            op: (word >> 16 & 0xffff) as u32,
            owner: (word >> 32) as u32,
        }
    }

    /// The tier of a packed tag, by its number.
    #[inline]
    pub(crate) const fn packed_tier(word: u64) -> u64 {
        word & 0xff
    }

    /// What a request says that says nothing; also the default.
    pub const NONE: Self = Self { tier: Tier::Temporary, precision: Precision::Unknown, op: 0, owner: 0 };
}

/// A tag in words.
#[derive(Clone, Copy, Debug)]
pub struct TagText(pub Tag);

impl std::fmt::Display for TagText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match crate::op_name(self.0.op) {
            Some(op) => f.write_str(&op)?,
            None => f.write_str("no operator")?,
        }
        if self.0.owner != 0 {
            write!(f, " of owner {}", self.0.owner)?;
        }
        write!(f, " ({}, {})", self.0.tier.name(), self.0.precision.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places_and_names_are_distinct() {
        for (place, tier) in Tier::ALL.into_iter().enumerate() {
            assert_eq!(tier as usize, place);
        }
        for (place, precision) in Precision::ALL.into_iter().enumerate() {
            assert_eq!(precision as usize, place);
            assert_eq!(Precision::ALL.iter().filter(|other| other.name() == precision.name()).count(), 1);
        }
        assert_eq!(Tag::NONE, Tag::default());
    }
}
