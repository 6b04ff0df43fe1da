//! The cells of a column of somebody else's table: numbers and texts, whatever they are packed in.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_schema::{DataType, TimeUnit};

/// Looks a cell up by its row; `None` is a null.
pub type Cells<'a, T> = Box<dyn Fn(usize) -> Option<T> + 'a>;

/// A number: whole, or with a fraction.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// A whole one.
    Whole(i128),
    /// Another.
    Real(f64),
}

fn cells<'a, A: ArrowPrimitiveType, T>(
    array: &'a ArrayRef,
    of: impl Fn(A::Native) -> T + 'a,
) -> Cells<'a, T> {
    let array: &PrimitiveArray<A> = array.as_primitive();
    Box::new(move |row| array.is_valid(row).then(|| of(array.value(row))))
}

/// A column of numbers.
pub fn numbers(array: &ArrayRef) -> Option<Cells<'_, Number>> {
    macro_rules! whole {
        ($kind:ty) => {
            cells::<$kind, _>(array, |value| Number::Whole(value.into()))
        };
    }
    Some(match array.data_type() {
        DataType::Int8 => whole!(Int8Type),
        DataType::Int16 => whole!(Int16Type),
        DataType::Int32 => whole!(Int32Type),
        DataType::Int64 => whole!(Int64Type),
        DataType::UInt8 => whole!(UInt8Type),
        DataType::UInt16 => whole!(UInt16Type),
        DataType::UInt32 => whole!(UInt32Type),
        DataType::UInt64 => whole!(UInt64Type),
        DataType::Float32 => cells::<Float32Type, _>(array, |value| Number::Real(value.into())),
        DataType::Float64 => cells::<Float64Type, _>(array, Number::Real),
        DataType::Timestamp(unit, _) | DataType::Duration(unit) => ticks(array, *unit),
        _ => return None,
    })
}

/// A column of points or spans of time, in units of its own.
fn ticks(array: &ArrayRef, unit: TimeUnit) -> Cells<'_, Number> {
    use arrow_array::types::{
        DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
        DurationSecondType, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType, TimestampSecondType,
    };
    macro_rules! of {
        ($stamp:ty, $span:ty) => {
            match array.data_type() {
                DataType::Timestamp(..) => {
                    cells::<$stamp, _>(array, |value| Number::Whole(value.into()))
                }
                _ => cells::<$span, _>(array, |value| Number::Whole(value.into())),
            }
        };
    }
    match unit {
        TimeUnit::Second => of!(TimestampSecondType, DurationSecondType),
        TimeUnit::Millisecond => of!(TimestampMillisecondType, DurationMillisecondType),
        TimeUnit::Microsecond => of!(TimestampMicrosecondType, DurationMicrosecondType),
        TimeUnit::Nanosecond => of!(TimestampNanosecondType, DurationNanosecondType),
    }
}

/// A column of texts; categories too.
pub fn texts(array: &ArrayRef) -> Option<Cells<'_, &str>> {
    Some(match array.data_type() {
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            Box::new(move |row| array.is_valid(row).then(|| array.value(row)))
        }
        DataType::LargeUtf8 => {
            let array = array.as_string::<i64>();
            Box::new(move |row| array.is_valid(row).then(|| array.value(row)))
        }
        DataType::Utf8View => {
            let array = array.as_string_view();
            Box::new(move |row| array.is_valid(row).then(|| array.value(row)))
        }
        DataType::Dictionary(..) => {
            let categories = array.as_any_dictionary();
            let names = texts(categories.values())?;
            let keys = numbers_of_keys(categories.keys())?;
            Box::new(move |row| keys(row).and_then(&names))
        }
        _ => return None,
    })
}

fn numbers_of_keys(keys: &dyn Array) -> Option<Cells<'_, usize>> {
    macro_rules! of {
        ($kind:ty) => {{
            let keys = keys.as_primitive::<$kind>();
            Box::new(move |row: usize| {
                keys.is_valid(row).then(|| usize::try_from(keys.value(row)).ok()).flatten()
            })
        }};
    }
    Some(match keys.data_type() {
        DataType::Int8 => of!(Int8Type),
        DataType::Int16 => of!(Int16Type),
        DataType::Int32 => of!(Int32Type),
        DataType::Int64 => of!(Int64Type),
        DataType::UInt8 => of!(UInt8Type),
        DataType::UInt16 => of!(UInt16Type),
        DataType::UInt32 => of!(UInt32Type),
        DataType::UInt64 => of!(UInt64Type),
        _ => return None,
    })
}
