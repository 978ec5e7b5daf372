#!/usr/bin/env bash
# Builds the replay programs into FOLDER/bin; README.md says what each of them is.
#
#   benches/compare/peers/build.sh FOLDER [gpumem] [bfc] [caching] [rmm]        (all, if none is named)
#
# Peers come as wheels, by pip: about 850 MB of downloads and 3 GB of room. PYTHON chooses the interpreter; it has to be
# one that the wheels are for (3.11). GPUMEM_PREFIX names a folder that ci/install.sh filled; without it, ci/link.sh runs.
set -euo pipefail
if [[ $# == 0 ]]; then
    echo "usage: $0 FOLDER [gpumem] [bfc] [caching] [rmm]" >&2
    exit 2
fi
mkdir -p "$1/wheels" "$1/bin" "$1/lib"
folder=$(cd "$1" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
shift
wanted=" ${*:-gpumem bfc caching rmm} "
python=${PYTHON:-python3}
compile=(nice g++ -w -O2 -DNDEBUG -pthread)

wants() { [[ $wanted == *" $1 "* ]]; }

get() {
    [[ -x $folder/venv/bin/pip ]] || "$python" -m venv "$folder/venv"
    "$folder/venv/bin/pip" download --quiet --no-deps --dest "$folder/wheels" "$@"
}

# unpack WHEEL TO [FILES...]
unpack() {
    mkdir -p "$folder/$2"
    (cd "$folder/$2" && unzip -q -o "$folder"/wheels/$1 "${@:3}")
}

if wants gpumem; then
    prefix=${GPUMEM_PREFIX:-}
    if [[ -z $prefix ]]; then
        prefix=$folder/gpumem
        mkdir -p "$prefix/include"
        "$root/ci/link.sh" "$prefix/lib"
        cp "$root/include/gpumem.h" "$prefix/include/"
    fi
    "${compile[@]}" -std=c++17 -Wall -I"$prefix/include" "$here/gpumem/gpumem_replay.cc" -o "$folder/bin/gpumem_replay" \
        -L"$prefix/lib" -lgpumem -Wl,-rpath,"$prefix/lib"
fi

if wants bfc; then
    get tensorflow-cpu==2.21.0
    unpack 'tensorflow_cpu-2.21.0-*.whl' tf
    tf=$folder/tf/tensorflow
    "${compile[@]}" -std=c++17 -I"$tf/include" "$here/tf_bfc/bfc_replay.cc" -o "$folder/bin/bfc_replay" \
        -L"$tf" -l:libtensorflow_framework.so.2 -Wl,-rpath,"$tf" -Wl,--unresolved-symbols=ignore-in-shared-libs
fi

# What caching and rmm have in common: the stand-in runtime, built against the headers of a real one.
runtime() {
    get 'nvidia-cuda-runtime==13.2.*' 'nvidia-cuda-crt==13.2.*'
    unpack 'nvidia_cuda_runtime-13*.whl' rt13
    unpack 'nvidia_cuda_crt-13*.whl' crt13
    cuda13=(-I"$folder/rt13/nvidia/cu13/include" -I"$folder/crt13/nvidia/cu13/include")
    "${compile[@]}" -std=c++17 -fPIC -shared "${cuda13[@]}" "$here/torch_caching/fake_cudart.cc" -o "$folder/lib/libcudart.so.13" \
        -Wl,-soname,libcudart.so.13 -Wl,--version-script="$here/torch_caching/cudart.map"
}

if wants caching || wants rmm; then runtime; fi

if wants caching; then
    get torch==2.15.0
    unpack 'torch-2.15.0-*.whl' torch 'torch/lib/libc10*.so' 'torch/include/c10/*' 'torch/include/torch/headeronly/*'
    torch=$folder/torch/torch
    "${compile[@]}" -std=c++20 "${cuda13[@]}" -I"$torch/include" "$here/torch_caching/caching_replay.cc" \
        -o "$folder/bin/caching_replay" -L"$torch/lib" -lc10_cuda -lc10 "$folder/lib/libcudart.so.13" \
        -Wl,-rpath,"$torch/lib:$folder/lib"
fi

if wants rmm; then
    get 'nvidia-cuda-runtime-cu12==12.9.*' 'librmm-cu12==25.4.*' 'rapids-logger==0.1.*'
    unpack 'nvidia_cuda_runtime_cu12-*.whl' rt12
    unpack 'librmm_cu12-25.4*.whl' rmm
    unpack 'rapids_logger-0.1*.whl' rl
    rmm=$folder/rmm/librmm/include
    logger=$folder/rl/rapids_logger
    "${compile[@]}" -std=c++17 -DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE -DRMM_LOG_ACTIVE_LEVEL=6 -DTHRUST_HOST_SYSTEM=1 \
        -I"$rmm" -I"$rmm/rapids" -I"$rmm/rapids/libcudacxx" -I"$rmm/rapids/libcudacxx/include" -I"$logger/include" \
        -I"$folder/rt12/nvidia/cuda_runtime/include" -I"$folder/crt13/nvidia/cu13/include" \
        "$here/rmm/rmm_replay.cc" -o "$folder/bin/rmm_replay" "$folder/lib/libcudart.so.13" \
        -L"$logger/lib64" -lrapids_logger -ldl -Wl,-rpath,"$folder/lib:$logger/lib64"
fi
echo "built in $folder/bin: $(ls "$folder/bin" | tr '\n' ' ')"
