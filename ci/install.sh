#!/usr/bin/env bash
# Installs libgpumem for programs in C and C++: libraries, headers, a pkg-config file and a CMake package.
#
#   ci/install.sh PREFIX        (DESTDIR is honoured)
#
# LIBRARIES names a folder that ci/link.sh filled; without it, ci/link.sh runs first.
set -euo pipefail
if [[ $# != 1 || $1 != /* ]]; then
    echo 'usage: ci/install.sh /ABSOLUTE/PREFIX' >&2
    exit 2
fi
prefix=${1%/}
here=$(dirname "${BASH_SOURCE[0]}")
source "$here/lib.sh"

libraries=${LIBRARIES:-$target/libgpumem}
if [[ -z ${LIBRARIES:-} ]]; then bash ci/link.sh "$libraries"; fi
version=$(sed -n 's/^version *= *"\(.*\)"/\1/p' Cargo.toml | sed -n 1p)
to=${DESTDIR:-}$prefix

install -d "$to/lib/pkgconfig" "$to/lib/cmake/Gpumem" "$to/include" "$to/share/doc/gpumem"
install -m 644 include/gpumem.h "$to/include/gpumem.h"
install -m 644 "$libraries/libgpumem.a" "$to/lib/libgpumem.a"
install -m 755 "$libraries/libgpumem.so.$version" "$to/lib/libgpumem.so.$version"
ln -sfn "libgpumem.so.$version" "$to/lib/libgpumem.so.${version%%.*}"
ln -sfn "libgpumem.so.${version%%.*}" "$to/lib/libgpumem.so"
install -m 644 LICENSE-APACHE LICENSE-MIT "$to/share/doc/gpumem/"
install -d "$to/include/gpumem"
install -m 644 bindings/cpp/gpumem.hpp "$to/include/gpumem.hpp"
install -m 644 bindings/cpp/gpumem/*.hpp "$to/include/gpumem/"

# The prefix is found from where this file is, so that the folder can be moved.
cat >"$to/lib/pkgconfig/gpumem.pc" <<END
prefix=\${pcfiledir}/../..
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: gpumem
Description: Plans, allocates and explains the memory of deep-learning programs
Version: $version
Libs: -L\${libdir} -lgpumem
Libs.private: -lpthread -ldl -lm -lgcc_s -lc
Cflags: -I\${includedir}
END

cat >"$to/lib/cmake/Gpumem/GpumemConfig.cmake" <<'END'
# Defines gpumem::gpumem, the shared library, and gpumem::static.
get_filename_component(_gpumem_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET gpumem::gpumem)
    set(_gpumem_library "${_gpumem_prefix}/lib/libgpumem.so.*.*.*")
    add_library(gpumem::gpumem SHARED IMPORTED)
    set_target_properties(gpumem::gpumem PROPERTIES
        IMPORTED_LOCATION "${_gpumem_library}"
        IMPORTED_SONAME "@soname@"
        INTERFACE_INCLUDE_DIRECTORIES "${_gpumem_prefix}/include")
    add_library(gpumem::static STATIC IMPORTED)
    set_target_properties(gpumem::static PROPERTIES
        IMPORTED_LOCATION "${_gpumem_prefix}/lib/libgpumem.a"
        INTERFACE_LINK_LIBRARIES "pthread;dl;m;gcc_s;c"
        INTERFACE_INCLUDE_DIRECTORIES "${_gpumem_prefix}/include")
    unset(_gpumem_library)
endif()
unset(_gpumem_prefix)
END
sed -i "s/@soname@/libgpumem.so.${version%%.*}/; s|libgpumem.so.\*.\*.\*|libgpumem.so.$version|" "$to/lib/cmake/Gpumem/GpumemConfig.cmake"
# Before 1.0 a program needs the minor version it was written for.
cat >"$to/lib/cmake/Gpumem/GpumemConfigVersion.cmake" <<END
set(PACKAGE_VERSION "$version")
if("\${PACKAGE_FIND_VERSION_MAJOR}.\${PACKAGE_FIND_VERSION_MINOR}" STREQUAL "${version%.*}" AND
        NOT PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
    if(PACKAGE_VERSION VERSION_EQUAL PACKAGE_FIND_VERSION)
        set(PACKAGE_VERSION_EXACT TRUE)
    endif()
else()
    set(PACKAGE_VERSION_COMPATIBLE FALSE)
endif()
END
echo "gpumem $version is in $to"
