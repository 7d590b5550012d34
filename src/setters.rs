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

/// Makes a method for each private field, with its documentation, which takes a value and returns the struct. Fields
/// that are optional take the value itself, or an `Option`.
macro_rules! plain_setters {
    () => {};
    ($(#[doc = $line:literal])+ $field:ident: Option<$type:ty>; $($rest:tt)*) => {
        $(#[doc = $line])+
        #[must_use]
        pub fn $field(mut self, $field: impl Into<Option<$type>>) -> Self {
            self.$field = $field.into();
            self
        }
        $crate::setters::plain_setters! { $($rest)* }
    };
    ($(#[doc = $line:literal])+ $field:ident: $type:ty; $($rest:tt)*) => {
        $(#[doc = $line])+
        #[must_use]
        pub fn $field(mut self, $field: $type) -> Self {
            self.$field = $field;
            self
        }
        $crate::setters::plain_setters! { $($rest)* }
    };
}

#[cfg_attr(not(feature = "write"), allow(unused_imports, reason = "only options of writing have optional fields"))]
pub(crate) use plain_setters;
