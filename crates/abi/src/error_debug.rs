//! The `Debug` of perfring's errors.

/// Implements `Debug` by `Display`, so that an error which `main` returns, or which `unwrap` meets, prints
/// its sentence and not the names of its fields.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_by_display {
    ($($error:ty),+ $(,)?) => {$(
        impl ::core::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(self, f)
            }
        }
    )+};
}
