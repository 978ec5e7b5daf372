//! Colours, once for pages and static pictures. Tiers differ in hue and in lightness, so that they stay apart for
//! readers who see fewer hues; a test checks this with simulated vision.

use std::fmt;

use lifetime::Tier;

use crate::Theme;

/// A colour in sRGB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rgb(pub(crate) u8, pub(crate) u8, pub(crate) u8);

impl Rgb {
    /// This colour with `parts` of 256 parts of another.
    pub(crate) fn mixed(self, other: Self, parts: u16) -> Self {
        let mix = |a: u8, b: u8| {
            let (a, b, parts) = (u32::from(a), u32::from(b), u32::from(parts.min(256)));
            u8::try_from((a * (256 - parts) + b * parts + 128) / 256).unwrap_or(u8::MAX)
        };
        Self(mix(self.0, other.0), mix(self.1, other.1), mix(self.2, other.2))
    }

    /// Relative luminance as in WCAG 2, from 0 to 1.
    pub(crate) fn luminance(self) -> f64 {
        let linear = |c: u8| {
            let c = f64::from(c) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(self.0) + 0.7152 * linear(self.1) + 0.0722 * linear(self.2)
    }

    /// Contrast ratio as in WCAG 2, from 1 to 21.
    pub(crate) fn contrast(self, other: Self) -> f64 {
        let (a, b) = (self.luminance(), other.luminance());
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }
}

impl fmt::Display for Rgb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

/// Buffers of one tier come in this many shades, so that neighbours can be told apart.
pub(crate) const SHADES: usize = 8;

/// The shade of the buffer drawn as number `index`: far apart for neighbours.
pub(crate) fn shade_of(index: usize) -> usize {
    (index as u32).wrapping_mul(2_654_435_761) as usize >> 29
}

/// How many groups have a colour, the one for all others included.
pub(crate) const GROUPS: usize = 12;

/// Mid-tones that stand out on a light and on a dark ground; neighbours differ in lightness too.
const GROUP_COLORS: [Rgb; GROUPS] = [
    Rgb(0x45, 0x61, 0xab),
    Rgb(0xf0, 0xb2, 0x4a),
    Rgb(0x44, 0xae, 0x9f),
    Rgb(0xd4, 0x5f, 0x7d),
    Rgb(0x9c, 0xc8, 0x5a),
    Rgb(0x8a, 0x63, 0xbd),
    Rgb(0x6f, 0xb9, 0xe8),
    Rgb(0xb8, 0x5c, 0x2f),
    Rgb(0xe6, 0x9f, 0xd0),
    Rgb(0x4f, 0x86, 0x3f),
    Rgb(0xe0, 0xd4, 0x6a),
    Rgb(0x8c, 0x96, 0xa5),
];

/// All colours of a theme.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    /// Ground of the page.
    pub(crate) ground: Rgb,
    /// Ground of cards, buttons and fields.
    pub(crate) surface: Rgb,
    /// Ground of a plot below the peak.
    pub(crate) plot: Rgb,
    /// Ground of a plot above the peak.
    pub(crate) beyond: Rgb,
    /// Text.
    pub(crate) text: Rgb,
    /// Text of less weight; still readable on `ground`.
    pub(crate) muted: Rgb,
    /// Edges of things.
    pub(crate) hairline: Rgb,
    /// Lines of the hatch that marks holes.
    pub(crate) hole: Rgb,
    /// Ground of that hatch.
    pub(crate) hole_ground: Rgb,
    /// Line at the peak.
    pub(crate) peak: Rgb,
    /// Line at the lower bound.
    pub(crate) bound: Rgb,
    /// Line at the capacity.
    pub(crate) capacity: Rgb,
    /// Focus, selection, links.
    pub(crate) accent: Rgb,
    /// Something good.
    pub(crate) good: Rgb,
    /// Something bad.
    pub(crate) bad: Rgb,
    /// Persistent, cyclic, temporary.
    pub(crate) tiers: [Rgb; 3],
    /// Groups of a history, the one of highest peak first; the last stands for all others.
    pub(crate) groups: [Rgb; GROUPS],
    /// Classes of size, the largest first.
    pub(crate) sizes: [Rgb; 5],
    /// What borders of buffers are mixed with, and how many of 256 parts of it.
    edge: (Rgb, u16),
}

/// Dark on light.
pub(crate) static LIGHT: Palette = Palette {
    ground: Rgb(0xf6, 0xf7, 0xf9),
    surface: Rgb(0xff, 0xff, 0xff),
    plot: Rgb(0xff, 0xff, 0xff),
    beyond: Rgb(0xee, 0xf0, 0xf4),
    text: Rgb(0x18, 0x20, 0x2c),
    muted: Rgb(0x55, 0x60, 0x70),
    hairline: Rgb(0xd9, 0xde, 0xe6),
    hole: Rgb(0xf1, 0xc5, 0xcd),
    hole_ground: Rgb(0xfe, 0xf8, 0xf8),
    peak: Rgb(0x18, 0x20, 0x2c),
    bound: Rgb(0x8a, 0x2b, 0xc2),
    capacity: Rgb(0xc4, 0x1e, 0x3a),
    accent: Rgb(0x1f, 0x5f, 0xd0),
    good: Rgb(0x0b, 0x72, 0x4f),
    bad: Rgb(0xb4, 0x1b, 0x34),
    tiers: [Rgb(0x3f, 0x5a, 0xa0), Rgb(0xf2, 0xb3, 0x48), Rgb(0x45, 0xae, 0x9f)],
    groups: GROUP_COLORS,
    sizes: [
        Rgb(0x1f, 0x3f, 0x7a),
        Rgb(0x2f, 0x72, 0xad),
        Rgb(0x3f, 0xa3, 0xb0),
        Rgb(0x86, 0xc9, 0x97),
        Rgb(0xe3, 0xdc, 0x7e),
    ],
    edge: (Rgb(0x10, 0x18, 0x28), 84),
};

/// Light on dark.
pub(crate) static DARK: Palette = Palette {
    ground: Rgb(0x0e, 0x12, 0x19),
    surface: Rgb(0x18, 0x1e, 0x28),
    plot: Rgb(0x12, 0x17, 0x20),
    beyond: Rgb(0x1a, 0x20, 0x2b),
    text: Rgb(0xe8, 0xec, 0xf2),
    muted: Rgb(0x9a, 0xa6, 0xb8),
    hairline: Rgb(0x2c, 0x35, 0x43),
    hole: Rgb(0x52, 0x2d, 0x39),
    hole_ground: Rgb(0x1d, 0x17, 0x1f),
    peak: Rgb(0xe8, 0xec, 0xf2),
    bound: Rgb(0xc9, 0x8b, 0xf5),
    capacity: Rgb(0xff, 0x6b, 0x81),
    accent: Rgb(0x7a, 0xb0, 0xff),
    good: Rgb(0x4f, 0xd1, 0xa5),
    bad: Rgb(0xff, 0x7a, 0x8e),
    tiers: [Rgb(0x4a, 0x67, 0xb3), Rgb(0xec, 0xb4, 0x5c), Rgb(0x42, 0xb0, 0xa0)],
    groups: GROUP_COLORS,
    sizes: [
        Rgb(0x35, 0x57, 0x9c),
        Rgb(0x3a, 0x7f, 0xbd),
        Rgb(0x46, 0xa8, 0xb5),
        Rgb(0x8a, 0xcb, 0x9a),
        Rgb(0xe3, 0xdc, 0x7e),
    ],
    edge: (Rgb(0x08, 0x0c, 0x14), 120),
};

/// The index of a tier in [`Palette::tiers`].
pub(crate) fn tier_index(tier: Tier) -> usize {
    match tier {
        Tier::Persistent => 0,
        Tier::Cyclic => 1,
        Tier::Temporary => 2,
    }
}

impl Palette {
    /// The palette of a static picture.
    pub(crate) fn of(theme: Theme) -> &'static Self {
        match theme {
            Theme::Dark => &DARK,
            Theme::Light | Theme::Auto => &LIGHT,
        }
    }

    /// Fill of a buffer.
    pub(crate) fn shade(&self, tier: usize, shade: usize) -> Rgb {
        shaded(self.tiers[tier], shade)
    }

    /// Border of a buffer.
    pub(crate) fn edge(&self, tier: usize) -> Rgb {
        self.edge_of(self.tiers[tier])
    }

    /// Border of something of this colour.
    pub(crate) fn edge_of(&self, color: Rgb) -> Rgb {
        color.mixed(self.edge.0, self.edge.1)
    }

    /// Fill of a buffer that a search leaves out.
    pub(crate) fn dimmed(&self, tier: usize) -> Rgb {
        self.tiers[tier].mixed(self.plot, 205)
    }

    /// What is written on a buffer: black or white, whichever reads better.
    pub(crate) fn ink(&self, tier: usize) -> Rgb {
        ink_on(self.tiers[tier])
    }

    /// Every plain colour with its name, for style sheets and scripts.
    pub(crate) fn tokens(&self) -> [(&'static str, Rgb); 18] {
        [
            ("ground", self.ground),
            ("surface", self.surface),
            ("plot", self.plot),
            ("beyond", self.beyond),
            ("text", self.text),
            ("muted", self.muted),
            ("hairline", self.hairline),
            ("hole", self.hole),
            ("hole-ground", self.hole_ground),
            ("peak", self.peak),
            ("bound", self.bound),
            ("capacity", self.capacity),
            ("accent", self.accent),
            ("good", self.good),
            ("bad", self.bad),
            ("persistent", self.tiers[0]),
            ("cyclic", self.tiers[1]),
            ("temporary", self.tiers[2]),
        ]
    }

    /// The colours as JSON for a page's script: tokens by name, and per tier `shades`, `edges`, `dimmed`, `inks`.
    pub(crate) fn json(&self) -> String {
        let quoted = |color: Rgb| format!("\"{color}\"");
        let list = |colors: Vec<Rgb>| format!("[{}]", colors.into_iter().map(quoted).collect::<Vec<_>>().join(","));
        let tokens = self.tokens().map(|(name, color)| format!("\"{name}\":{}", quoted(color))).join(",");
        let shades = (0..3).map(|tier| list((0..SHADES).map(|s| self.shade(tier, s)).collect()));
        format!(
            "{{{tokens},\"shades\":[{}],\"edges\":{},\"dimmed\":{},\"inks\":{}}}",
            shades.collect::<Vec<_>>().join(","),
            list((0..3).map(|t| self.edge(t)).collect()),
            list((0..3).map(|t| self.dimmed(t)).collect()),
            list((0..3).map(|t| self.ink(t)).collect()),
        )
    }

    /// The colours as JSON for the page of a history: tokens by name, and `groups`, `sizes` and `lives`, each a list of
    /// fills in all shades with their edge, dimmed colour and ink.
    pub(crate) fn history_json(&self) -> String {
        let tokens = self.tokens().map(|(name, color)| format!("\"{name}\":\"{color}\"")).join(",");
        let look = |&color: &Rgb| {
            let shades: Vec<String> = (0..SHADES).map(|s| format!("\"{}\"", shaded(color, s))).collect();
            format!(
                "{{\"fill\":\"{color}\",\"shades\":[{}],\"edge\":\"{}\",\"dimmed\":\"{}\",\"ink\":\"{}\"}}",
                shades.join(","),
                self.edge_of(color),
                color.mixed(self.plot, 205),
                ink_on(color)
            )
        };
        let looks = |colors: &[Rgb]| colors.iter().map(look).collect::<Vec<_>>().join(",");
        format!(
            "{{{tokens},\"looks\":{{\"groups\":[{}],\"sizes\":[{}],\"lives\":[{}]}}}}",
            looks(&self.groups),
            looks(&self.sizes),
            looks(&self.tiers),
        )
    }

    /// The tokens as CSS custom properties.
    fn properties(&self) -> String {
        self.tokens().map(|(name, color)| format!("--{name}:{color};")).concat()
    }
}

/// A colour in one of its shades, from 21/256 darker to 21/256 lighter.
pub(crate) fn shaded(color: Rgb, shade: usize) -> Rgb {
    let step = (shade % SHADES) as i16 * 6 - 21;
    let toward = if step < 0 { Rgb(0, 0, 0) } else { Rgb(255, 255, 255) };
    color.mixed(toward, step.unsigned_abs())
}

/// Black or white, whichever reads better on a colour.
pub(crate) fn ink_on(fill: Rgb) -> Rgb {
    let (black, white) = (Rgb(0x0c, 0x10, 0x18), Rgb(255, 255, 255));
    if fill.contrast(black) >= fill.contrast(white) { black } else { white }
}

/// Custom properties of both themes: the reader's system decides unless `data-theme` on the root says otherwise.
pub(crate) fn style_sheet() -> String {
    let (light, dark) = (LIGHT.properties(), DARK.properties());
    format!(
        ":root{{color-scheme:light;{light}}}\n\
         @media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n\
         :root[data-theme=dark]{{color-scheme:dark;{dark}}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    type Matrix = [[f64; 3]; 3];

    /// Simulated vision without long, middle or short cones: Machado, Oliveira, Fernandes 2009, severity 1.0, on
    /// linear sRGB. The first is usual vision.
    const VISIONS: [(&str, Matrix); 4] = [
        ("usual", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        ("protan", [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
        ("deutan", [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
        ("tritan", [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
    ];

    /// CIE L*a*b* (D65) of a colour as seen.
    fn lab(color: Rgb, vision: &Matrix) -> [f64; 3] {
        let linear = [color.0, color.1, color.2].map(|c| {
            let c = f64::from(c) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        });
        let apply = |m: &Matrix, v: [f64; 3]| m.map(|row| row.iter().zip(v).map(|(a, b)| a * b).sum::<f64>());
        let seen = apply(vision, linear).map(|c| c.clamp(0.0, 1.0));
        let to_xyz =
            [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]];
        let xyz = apply(&to_xyz, seen);
        let f = |t: f64| if t > 216.0 / 24389.0 { t.cbrt() } else { (24389.0 / 27.0 * t + 16.0) / 116.0 };
        let [x, y, z] = [f(xyz[0] / 0.95047), f(xyz[1]), f(xyz[2] / 1.08883)];
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    #[test]
    fn tiers_stay_apart_for_every_kind_of_vision() {
        for palette in [&LIGHT, &DARK] {
            for (name, vision) in &VISIONS {
                for (a, b) in [(0, 1), (0, 2), (1, 2)] {
                    let (p, q) = (lab(palette.tiers[a], vision), lab(palette.tiers[b], vision));
                    let distance = p.iter().zip(q).map(|(x, y)| (x - y).powi(2)).sum::<f64>().sqrt();
                    assert!(distance > 20.0, "{name}: tiers {a} and {b} are {distance:.1} apart");
                }
            }
        }
    }

    #[test]
    fn groups_and_sizes_stay_apart() {
        for palette in [&LIGHT, &DARK] {
            for colors in [&palette.groups[..], &palette.sizes[..]] {
                for (a, first) in colors.iter().enumerate() {
                    for second in &colors[..a] {
                        let (p, q) = (lab(*first, &VISIONS[0].1), lab(*second, &VISIONS[0].1));
                        let distance = p.iter().zip(q).map(|(x, y)| (x - y).powi(2)).sum::<f64>().sqrt();
                        assert!(distance > 16.0, "{first} and {second} are {distance:.1} apart");
                    }
                    for ground in [palette.plot, palette.hole_ground] {
                        assert!(first.contrast(ground) >= 1.3, "{first} on {ground}");
                    }
                }
            }
        }
    }

    #[test]
    fn text_and_lines_can_be_read() {
        for palette in [&LIGHT, &DARK] {
            for ground in [palette.ground, palette.surface, palette.plot, palette.beyond] {
                assert!(palette.text.contrast(ground) >= 10.0);
                assert!(palette.muted.contrast(ground) >= 4.5, "{} on {ground}", palette.muted);
                for mark in [palette.bound, palette.capacity, palette.accent, palette.good, palette.bad] {
                    assert!(mark.contrast(ground) >= 4.5, "{mark} on {ground}");
                }
            }
            for tier in 0..3 {
                for shade in 0..SHADES {
                    let fill = palette.shade(tier, shade);
                    assert!(palette.ink(tier).contrast(fill) >= 4.5, "{} on {fill}", palette.ink(tier));
                }
                assert!(palette.tiers[tier].contrast(palette.plot) >= 1.8, "tier {tier} on its ground");
            }
        }
    }

    #[test]
    fn neighbours_differ_in_shade() {
        assert!((0..10_000).all(|i| shade_of(i) != shade_of(i + 1) && shade_of(i) < SHADES));
    }
}
