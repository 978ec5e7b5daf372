/* What the tests in C share: a check that says where it failed, and what the library said. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                                   \
    do {                                                                                                   \
        if (!(condition)) {                                                                                \
            fprintf(stderr, "%s:%d: not so: %s\n  last error: %s\n", __FILE__, __LINE__, #condition, gpumem_last_error()); \
            exit(1);                                                                                       \
        }                                                                                                  \
    } while (0)

#define IS(status, call) CHECK((call) == (status))
#define OK(call) IS(GPUMEM_STATUS_OK, call)

#endif
