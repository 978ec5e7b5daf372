//! Element types.

use std::fmt;

macro_rules! dtypes {
    ($($variant:ident $name:literal $bits:literal $(| $alias:literal)*),+ $(,)?) => {
        /// Type of a tensor's elements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum DType {
            $(#[doc = concat!("`", $name, "`, ", stringify!($bits), " bits.")] $variant,)+
        }

        impl DType {
            /// Every type, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The type with this name (`f32`, `bf16`, `pred`, ...); `None` if there is none.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name $(| $alias)* => Some(Self::$variant),)+
                    _ => None,
                }
            }

            /// The name it is written with.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// Bits of one element; 0 for [`DType::Opaque`].
            pub fn bits(self) -> u32 {
                match self { $(Self::$variant => $bits),+ }
            }
        }
    };
}

dtypes! {
    Bool "bool" 8 | "pred",
    I4 "i4" 4 | "s4",
    I8 "i8" 8 | "s8",
    I16 "i16" 16 | "s16",
    I32 "i32" 32 | "s32",
    I64 "i64" 64 | "s64",
    U4 "u4" 4,
    U8 "u8" 8,
    U16 "u16" 16,
    U32 "u32" 32,
    U64 "u64" 64,
    F4E2m1fn "f4e2m1fn" 4,
    F8E3m4 "f8e3m4" 8,
    F8E4m3 "f8e4m3" 8,
    F8E4m3fn "f8e4m3fn" 8,
    F8E4m3fnuz "f8e4m3fnuz" 8,
    F8E4m3b11fnuz "f8e4m3b11fnuz" 8,
    F8E5m2 "f8e5m2" 8,
    F8E5m2fnuz "f8e5m2fnuz" 8,
    F8E8m0fnu "f8e8m0fnu" 8,
    F16 "f16" 16,
    Bf16 "bf16" 16,
    F32 "f32" 32,
    F64 "f64" 64,
    C64 "c64" 64,
    C128 "c128" 128,
    Opaque "opaque" 0,
}

impl DType {
    /// Whether elements are floating-point numbers (complex ones don't count).
    pub fn is_float(self) -> bool {
        self.name().starts_with('f') || self == Self::Bf16
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
