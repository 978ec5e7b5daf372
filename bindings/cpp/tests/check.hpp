// What the tests here need of a test framework.
#ifndef GPUMEM_TESTS_CHECK_HPP
#define GPUMEM_TESTS_CHECK_HPP

#include <gpumem.hpp>

#include <cstdio>
#include <cstdlib>

/// Ends the program, with the place, if it isn't so.
#define CHECK(condition)                                                                                       \
    do {                                                                                                       \
        if (!(condition)) {                                                                                    \
            std::fprintf(stderr, "%s:%d: not so: %s\n  last error: %s\n", __FILE__, __LINE__, #condition,      \
                         gpumem::last_error());                                                                \
            std::exit(1);                                                                                      \
        }                                                                                                      \
    } while (false)

/// The status is the one expected.
#define IS(expected, expression)                                                                               \
    do {                                                                                                       \
        const gpumem::status is_ = (expression);                                                               \
        if (is_ != gpumem::status::expected) {                                                                 \
            std::fprintf(stderr, "%s:%d: %s: %s instead of " #expected "\n  last error: %s\n", __FILE__, __LINE__, \
                         #expression, gpumem::name(is_), gpumem::last_error());                                \
            std::exit(1);                                                                                      \
        }                                                                                                      \
    } while (false)

/// The expression throws this type, and `thrown` satisfies the condition.
#define THROWS(type, expression, condition)                                                                    \
    do {                                                                                                       \
        bool caught_ = false;                                                                                  \
        try {                                                                                                  \
            (void)(expression);                                                                                \
        } catch (const type &thrown) {                                                                         \
            caught_ = true;                                                                                    \
            (void)thrown;                                                                                      \
            CHECK(condition);                                                                                  \
        }                                                                                                      \
        if (!caught_) {                                                                                        \
            std::fprintf(stderr, "%s:%d: no " #type " from %s\n", __FILE__, __LINE__, #expression);            \
            std::exit(1);                                                                                      \
        }                                                                                                      \
    } while (false)

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t mib = 1024 * kib;

/// A pool on a host device of this many bytes.
inline gpumem::config on_host(std::uint64_t capacity_bytes, const char *settings = "") {
    gpumem::config config;
    config.device = "host";
    config.capacity_bytes = capacity_bytes;
    config.settings = settings;
    return config;
}

#endif
