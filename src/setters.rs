//! Methods that set one field, for structs that other crates cannot write as literals because they are
//! `#[non_exhaustive]`.

/// Makes a method for each field, which takes its value and returns the struct.
macro_rules! setters {
    ($($name:ident $field:ident: $type:ty;)+) => {$(
        #[doc = concat!("Sets [`", stringify!($field), "`](Self#structfield.", stringify!($field), ").")]
        #[must_use]
        pub fn $name(mut self, $field: $type) -> Self {
            self.$field = $field;
            self
        }
    )+};
}

pub(crate) use setters;
