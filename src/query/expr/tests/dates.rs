//! Dates, time zones and their texts.

use bson::{Bson, bson};

use super::{code, date, value};

/// 2021-01-28T13:05:00.123Z
const DAY: i64 = 1_611_839_100_123;

#[test]
fn parts_are_those_of_the_time_zone() {
    assert_eq!(value(bson!({ "$hour": date(DAY) })), bson!(13));
    assert_eq!(value(bson!({ "$hour": { "date": date(DAY), "timezone": "America/New_York" } })), bson!(8));
    assert_eq!(value(bson!({ "$minute": { "date": date(DAY), "timezone": "+05:30" } })), bson!(35));
    assert_eq!(value(bson!({ "$year": date(i64::MAX) })), bson!(292_278_994));
    assert_eq!(value(bson!({ "$isoWeekYear": date(DAY) })), Bson::Int64(2021));
    assert_eq!(code(bson!({ "$hour": { "date": date(DAY), "timezone": "utc" } })), 40485);
    assert_eq!(code(bson!({ "$hour": 5 })), 16006);
}

#[test]
fn weeks_begin_on_sunday_or_by_iso_on_monday() {
    let third_of_january = date(1_609_632_000_000);
    assert_eq!(value(bson!({ "$week": third_of_january.clone() })), bson!(1));
    assert_eq!(value(bson!({ "$isoWeek": third_of_january.clone() })), bson!(53));
    assert_eq!(value(bson!({ "$isoDayOfWeek": third_of_january })), bson!(7));
}

#[test]
fn parts_beyond_their_range_run_over() {
    let parts = bson!({ "$dateFromParts": { "year": 2017, "month": 14, "day": -5, "hour": 30, "minute": -70 } });
    assert_eq!(value(parts), date(1_517_028_600_000));
    assert_eq!(code(bson!({ "$dateFromParts": { "year": 0 } })), 40523);
    assert_eq!(code(bson!({ "$dateFromParts": { "year": 2017, "isoWeek": 3 } })), 40489);
    assert_eq!(code(bson!({ "$dateFromParts": { "year": 2017, "month": 32768 } })), 31034);
}

#[test]
fn times_that_clocks_skip_or_repeat_have_an_instant() {
    let at = |month: i32, day: i32, hour: i32| {
        bson!({ "$dateFromParts": {
            "year": 2021, "month": month, "day": day, "hour": hour, "minute": 30, "timezone": "America/New_York"
        } })
    };
    assert_eq!(value(at(3, 14, 2)), date(1_615_707_000_000));
    assert_eq!(value(at(11, 7, 1)), date(1_636_266_600_000));
}

#[test]
fn days_follow_the_clock_on_the_wall_and_hours_do_not() {
    let add = |unit: &str, amount: i32| {
        bson!({ "$dateAdd": {
            "startDate": date(1_615_615_200_000), "unit": unit, "amount": amount, "timezone": "America/New_York"
        } })
    };
    assert_eq!(value(add("day", 2)), date(1_615_784_400_000));
    assert_eq!(value(add("hour", 48)), date(1_615_788_000_000));
    let end_of_january = date(1_612_051_200_000);
    let month = bson!({ "$dateAdd": { "startDate": end_of_january, "unit": "month", "amount": 1 } });
    assert_eq!(value(month), date(1_614_470_400_000));
}

#[test]
fn differences_count_borders() {
    let (before, after) = (date(1_609_459_199_999), date(1_609_459_200_000));
    for unit in ["year", "quarter", "month", "day", "hour", "millisecond"] {
        let diff = bson!({ "$dateDiff": { "startDate": before.clone(), "endDate": after.clone(), "unit": unit } });
        assert_eq!(value(diff), Bson::Int64(1), "{unit}");
    }
    let week = bson!({ "$dateDiff": { "startDate": before, "endDate": after, "unit": "week", "startOfWeek": "FRI" } });
    assert_eq!(value(week), Bson::Int64(1));
}

#[test]
fn bins_are_counted_from_the_year_2000() {
    let trunc =
        |unit: &str, size: i32| value(bson!({ "$dateTrunc": { "date": date(DAY), "unit": unit, "binSize": size } }));
    assert_eq!(trunc("year", 7), date(1_609_459_200_000));
    assert_eq!(trunc("month", 5), date(1_604_188_800_000));
    assert_eq!(trunc("minute", 13), date(1_611_838_380_000));
    assert_eq!(code(bson!({ "$dateTrunc": { "date": date(DAY), "unit": "hour", "binSize": 0 } })), 5_439_018);
}

#[test]
fn dates_are_written_by_formats() {
    let format = "%Y-%m-%d %H:%M:%S.%L %j %w %U %u %V %G %z %Z %%";
    let text = bson!({ "$dateToString": { "date": date(DAY), "format": format } });
    assert_eq!(value(text), bson!("2021-01-28 13:05:00.123 028 5 04 4 04 2021 +0000 0 %"));
    assert_eq!(code(bson!({ "$dateToString": { "date": date(DAY), "format": "%b" } })), 18536);
    assert_eq!(code(bson!({ "$dateToString": { "date": date(253_402_300_800_000) } })), 18537);
    assert_eq!(value(bson!({ "$dateToString": { "date": null, "onNull": "z" } })), bson!("z"));
}

#[test]
fn dates_are_read_by_formats() {
    let read = |text: &str, format: &str| bson!({ "$dateFromString": { "dateString": text, "format": format } });
    assert_eq!(value(read("06-15-2018", "%m-%d-%Y")), date(1_529_020_800_000));
    assert_eq!(value(read("2018-W24-5", "%G-W%V-%u")), date(1_529_020_800_000));
    assert_eq!(value(read("2018-06-15 +180", "%Y-%m-%d %Z")), date(1_529_010_000_000));
    assert_eq!(code(read("2018", "%Y")), 241);
    assert_eq!(code(read("2018-166", "%Y-%j")), 18536);
}

#[test]
fn dates_are_read_in_iso_8601() {
    let midnight = 1_486_512_000_000;
    for text in ["2017-02-08", "20170208", "2017-W06-3", "2017W063", "2017-02-08T00", "2017-02-08 0000", "2017-02-08Z"]
    {
        assert_eq!(value(bson!({ "$toDate": text })), date(midnight), "{text}");
    }
    let afternoon = midnight + 15 * 3_600_000;
    for text in ["2017-02-08T15:00:00Z", "20170208T1500", "2017-02-08 18:00 +0300", "2017-02-08T10:00 EST"] {
        assert_eq!(value(bson!({ "$toDate": text })), date(afternoon), "{text}");
    }
    assert_eq!(value(bson!({ "$toDate": "2017-02" })), date(1_485_907_200_000));
    assert_eq!(value(bson!({ "$toDate": "2017-02-08T15:00:00.1234567+00:00" })), date(afternoon + 123));
    let in_zone = bson!({ "$dateFromString": { "dateString": "2017-02-08T10:00", "timezone": "America/New_York" } });
    assert_eq!(value(in_zone), date(afternoon));
}

#[test]
fn other_texts_are_no_dates() {
    for text in ["", "x", "Friday", "2017", "12:10", "2017-02-30", "2017-02-08 America/New_York", "2017-02-08T25:00"] {
        assert_eq!(code(bson!({ "$toDate": text })), 241, "{text}");
    }
    for text in ["2017-02-08T12:", "2017-02-08T12:10:40.", "201702", "2017-2-8", "2017-02-08 1:2", "ä017"] {
        assert_eq!(code(bson!({ "$toDate": text })), 241, "{text}");
    }
    // The letter is a time zone, seven hours west of UTC.
    assert_eq!(value(bson!({ "$toDate": "2017-02-08T" })), date(1_486_537_200_000));
    for text in ["Feb 8 2017", "02/08/2017", "8.2.2017", "Wed 2017-02-08", "2017-02-08 3pm", "@1486512000", "tomorrow"]
    {
        assert_eq!(code(bson!({ "$toDate": text })), 241, "{text}");
    }
}

#[test]
fn years_behind_the_database_follow_its_last_rules() {
    let summer = bson!({ "$dateFromParts": { "year": 2050, "month": 7, "timezone": "Europe/Berlin" } });
    assert_eq!(value(summer), date(2_540_239_200_000));
}
