//! OpenTelemetry's enumerations and their numbers.

macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $number:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $(
                #[doc = concat!("`", $text, "`. ")]
                $(#[$each])*
                $variant = $number,
            )*
        }

        impl $name {
            /// All values.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// Returns the number in records.
            #[must_use]
            pub const fn number(self) -> u64 {
                self as u64
            }

            /// Returns OpenTelemetry's short name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }

            /// Returns the value with this name, in upper or lower case.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.name().eq_ignore_ascii_case(name))
            }

            /// Returns the value with this number.
            #[must_use]
            pub const fn from_number(number: u64) -> Option<Self> {
                match number {
                    $($number => Some($name::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

numbered! {
    /// `SeverityNumber` of the log data model: 1 to 24.
    ///
    /// ```
    /// use perfring_telemetry::Severity;
    /// assert_eq!((Severity::Warn.number(), Severity::Warn.name()), (13, "WARN"));
    /// assert_eq!(Severity::from_number(17), Some(Severity::Error));
    /// ```
    Severity {
        /// The finest detail.
        Trace = 1 "TRACE",
        Trace2 = 2 "TRACE2",
        Trace3 = 3 "TRACE3",
        Trace4 = 4 "TRACE4",
        /// Details for debugging.
        Debug = 5 "DEBUG",
        Debug2 = 6 "DEBUG2",
        Debug3 = 7 "DEBUG3",
        Debug4 = 8 "DEBUG4",
        /// A normal event.
        Info = 9 "INFO",
        Info2 = 10 "INFO2",
        Info3 = 11 "INFO3",
        Info4 = 12 "INFO4",
        /// More important than an event, and not an error.
        Warn = 13 "WARN",
        Warn2 = 14 "WARN2",
        Warn3 = 15 "WARN3",
        Warn4 = 16 "WARN4",
        /// Something failed.
        Error = 17 "ERROR",
        Error2 = 18 "ERROR2",
        Error3 = 19 "ERROR3",
        Error4 = 20 "ERROR4",
        /// The program, or the thread, cannot continue.
        Fatal = 21 "FATAL",
        Fatal2 = 22 "FATAL2",
        Fatal3 = 23 "FATAL3",
        Fatal4 = 24 "FATAL4",
    }
}

numbered! {
    /// `SpanKind`.
    SpanKind {
        /// Internal to the program: the default.
        Internal = 1 "INTERNAL",
        /// Handles a request from elsewhere.
        Server = 2 "SERVER",
        /// Sends a request.
        Client = 3 "CLIENT",
        /// Puts a message into a queue.
        Producer = 4 "PRODUCER",
        /// Takes a message out of a queue.
        Consumer = 5 "CONSUMER",
    }
}

numbered! {
    /// `StatusCode` of a span.
    Status {
        /// Not set.
        Unset = 0 "UNSET",
        /// Marked as successful.
        Ok = 1 "OK",
        /// It failed.
        Error = 2 "ERROR",
    }
}

numbered! {
    /// `AggregationTemporality`: what a sum counts from.
    Temporality {
        /// From the sample before.
        Delta = 1 "DELTA",
        /// From the start.
        Cumulative = 2 "CUMULATIVE",
    }
}
