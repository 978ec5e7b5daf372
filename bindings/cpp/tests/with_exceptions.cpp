// The other part of no_exceptions.cpp.
#include "check.hpp"

int count_what_is_thrown(gpumem_allocator *raw);

int count_what_is_thrown(gpumem_allocator *raw) {
    gpumem::pool pool(raw);  // the caller's, which keeps it
    int thrown = 0;
    try {
        (void)pool.alloc(100 * mib);
    } catch (const gpumem::out_of_memory &) {
        ++thrown;
    }
    try {
        pool.free(&thrown);
    } catch (const gpumem::error &) {
        ++thrown;
    }
    (void)pool.release();
    return thrown;
}
