#!/usr/bin/env bash
# Builds what experiments/gpu/run.sh runs, and puts it with the libraries that a bare machine lacks into one folder, and
# that into one archive, which is all that the other machine needs. Needs nvcc and this project's Debian packages, but no GPU.
#
# usage: experiments/gpu/pack.sh [FOLDER]     (default: build/gpu-bundle)
#
# Architectures: CUDA_ARCHITECTURES, by default 90 (Hopper).
set -euo pipefail
cd "$(dirname "$0")/../.."

bundle=${1:-build/gpu-bundle}
experiments/packages.sh build test cudnn

mkdir -p build
cmake --preset cuda -B build/gpu -DWITH_MPI=OFF -DCMAKE_CUDA_ARCHITECTURES="${CUDA_ARCHITECTURES:-90}" >build/gpu-configure.log ||
  { cat build/gpu-configure.log && exit 1; }
cmake --build build/gpu --target stagecraft stagecraft-exec fp8_products gpu_tests

rm -rf "$bundle"
mkdir -p "$bundle/bin" "$bundle/lib"
programs=(build/gpu/apps/stagecraft/stagecraft build/gpu/apps/stagecraft-exec/stagecraft-exec
  build/gpu/experiments/gpu/fp8_products)
while IFS= read -r test; do programs+=("$test"); done < <(find build/gpu/tests -name '*_on_device' -type f -executable)
install -s "${programs[@]}" "$bundle/bin"

# What every Linux has, and what comes with the driver and the toolkit, stays out.
skipped='linux-vdso|ld-linux|/libc\.so|/libm\.so|/libdl\.so|/libpthread\.so|/librt\.so|libcuda|libcublas|libnccl|libnvrtc'
ldd "${programs[@]}" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u | grep -Ev "$skipped" |
  while IFS= read -r library; do install -s "$library" "$bundle/lib"; done

mkdir -p "$bundle/share/stagecraft"
cp -r configs "$bundle/share/stagecraft/"  # where the programs look
git rev-parse HEAD >"$bundle/commit"
# The programs share kernels, 30 MB of each, which a window larger than a program finds again.
tar -c -C "$(dirname "$bundle")" "$(basename "$bundle")" | xz --lzma2=preset=2,dict=128MiB >"$bundle.tar.xz"
du -sh "$bundle" "$bundle.tar.xz"

# What is brought to a device may have to be small, with the sources 64 MiB.
most=48 size=$(($(stat -c %s "$bundle.tar.xz") >> 20))
[ "$size" -lt "$most" ] || { echo "pack.sh: found an archive of $size MiB; accepted: less than $most MiB" >&2 && exit 1; }
