//! The Unicode properties that PCRE knows by name.

/// General categories, with PCRE's own `L&`.
const CATEGORIES: &str =
    " C Cc Cf Cn Co Cs L L& Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs ";

const SCRIPTS: &str = " Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali Bopomofo Brahmi Braille \
    Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee Common Coptic Cuneiform Cypriot \
    Cyrillic Deseret Devanagari Duployan Egyptian_Hieroglyphs Elbasan Ethiopic Georgian Glagolitic Gothic Grantha \
    Greek Gujarati Gurmukhi Han Hangul Hanunoo Hebrew Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi \
    Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi Khmer Khojki Khudawadi Lao Latin \
    Lepcha Limbu Linear_A Linear_B Lisu Lycian Lydian Mahajani Malayalam Mandaic Manichaean Meetei_Mayek \
    Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi Mongolian Mro Myanmar Nabataean New_Tai_Lue Nko \
    Ogham Ol_Chiki Old_Italic Old_North_Arabian Old_Permic Old_Persian Old_South_Arabian Old_Turkic Oriya Osmanya \
    Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan Saurashtra Sharada \
    Shavian Siddham Sinhala Sora_Sompeng Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet \
    Takri Tamil Telugu Thaana Thai Tibetan Tifinagh Tirhuta Ugaritic Vai Warang_Citi Yi ";

/// A property as a class of the engine. PCRE is particular about case, the engine is not.
pub(super) fn property(name: &str, negated: bool) -> Result<String, String> {
    let not = if negated { "^" } else { "" };
    let inside = match name {
        "Any" => r"\x{0}-\x{10FFFF}",
        "L&" => r"\p{Ll}\p{Lu}\p{Lt}",
        "Xan" => r"\p{L}\p{N}",
        "Xwd" => r"\p{L}\p{N}_",
        "Xps" | "Xsp" => r"\p{Z}\x{09}-\x{0D}",
        "Xuc" => r"\x{24}\x{40}\x{60}\x{A0}-\x{D7FF}\x{E000}-\x{10FFFF}",
        // Text has no surrogates.
        "Cs" => return Ok(if negated { r"[\x{0}-\x{10FFFF}]" } else { r"[^\x{0}-\x{10FFFF}]" }.to_owned()),
        _ => {
            let known = |names: &str| names.split_ascii_whitespace().any(|known| known == name);
            if !known(CATEGORIES) && !known(SCRIPTS) {
                return Err(format!("unknown property name {name:?}"));
            }
            return Ok(format!("[{not}\\p{{{name}}}]"));
        }
    };
    Ok(format!("[{not}{inside}]"))
}
