#pragma once

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

/// What fp8_products.cu measures, and the reference that it holds a device's results against.
namespace fp8 {

constexpr int tile = 128;  ///< of scales

inline void check(cudaError_t status, char const* call) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(status));
  std::exit(1);
}
inline void check(cublasStatus_t status, char const* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::fprintf(stderr, "%s: %s\n", call, cublasLtGetStatusString(status));
  std::exit(1);
}

/// What one scale is for.
enum class Scaling { tensor, rows, blocks };

struct Format {
  __nv_fp8_interpretation_t name = __NV_E4M3;
  float largest = 448;
};
constexpr Format e4m3{};
constexpr Format e5m2{__NV_E5M2, 57344};

/// Factor on values whose largest absolute value is `most`; 1 for zeros.
inline __host__ __device__ float scale_of(float most, float largest) {
  return most > 0 ? largest / most : 1.0F;
}
inline __host__ __device__ std::uint8_t quantised(float value, float scale, Format format) {
  return __nv_cvt_float_to_fp8(value * scale, __NV_SATFINITE, format.name);
}
inline float value_of(std::uint8_t bits, Format format) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(bits, format.name)));
}

/// A matrix [rows, columns] in 8 bits with the inverses of its scales: of 1 x 128 values [columns /
/// 128][rows], of 128 x 128 [rows / 128][columns / 128, padded to four], as cuBLASLt reads them.
struct Quantised {
  std::int64_t rows = 0, columns = 0;
  std::uint8_t* values = nullptr;
  float* inverses = nullptr;
  Format format;
  Scaling scaling = Scaling::tensor;

  __host__ __device__ std::int64_t place(std::int64_t row, std::int64_t column) const {
    if (scaling == Scaling::tensor) return 0;
    if (scaling == Scaling::rows) return column / tile * rows + row;
    return row / tile * padded() + column / tile;
  }
  __host__ __device__ std::int64_t padded() const { return (columns / tile + 3) / 4 * 4; }
  std::int64_t scales() const {
    if (scaling == Scaling::tensor) return 1;
    return scaling == Scaling::rows ? columns / tile * rows : rows / tile * padded();
  }
};

/// Quantises on a CPU, one value after the other.
inline void quantise_on_cpu(std::vector<__nv_bfloat16> const& x,
                            Quantised const& out,
                            bool is_transpose) {
  auto const at = [&](std::int64_t r, std::int64_t c) {
    return __bfloat162float(
        x[static_cast<std::size_t>(is_transpose ? c * out.rows + r : r * out.columns + c)]);
  };
  std::vector<float> most(static_cast<std::size_t>(out.scales()), 0.0F);
  for (std::int64_t r = 0; r < out.rows; ++r) {
    for (std::int64_t c = 0; c < out.columns; ++c) {
      float& known = most[static_cast<std::size_t>(out.place(r, c))];
      known = std::max(known, std::fabs(at(r, c)));
    }
  }
  for (std::size_t i = 0; i < most.size(); ++i)
    out.inverses[i] = 1 / scale_of(most[i], out.format.largest);
  for (std::int64_t r = 0; r < out.rows; ++r) {
    for (std::int64_t c = 0; c < out.columns; ++c) {
      float const scale =
          scale_of(most[static_cast<std::size_t>(out.place(r, c))], out.format.largest);
      out.values[r * out.columns + c] = quantised(at(r, c), scale, out.format);
    }
  }
}

/// The sum over k of A [m, k] B [n, k] at one place, as stored in 8 bits.
inline double exact(Quantised const& a, Quantised const& b, std::int64_t row, std::int64_t column) {
  double sum = 0;
  for (std::int64_t k = 0; k < a.columns; ++k) {
    sum += static_cast<double>(value_of(a.values[row * a.columns + k], a.format)) *
           a.inverses[a.place(row, k)] * value_of(b.values[column * b.columns + k], b.format) *
           b.inverses[b.place(column, k)];
  }
  return sum;
}

/// Random numbers of a tensor of a layer: normal, some rows larger than others.
inline std::vector<__nv_bfloat16> random_values(std::int64_t rows,
                                                std::int64_t columns,
                                                unsigned seed) {
  std::vector<__nv_bfloat16> all(static_cast<std::size_t>(rows * columns));
  std::mt19937 bits{seed};
  std::normal_distribution<float> normal;
  // A table, as drawing each of 10^8 numbers would take longer than the measurement.
  std::vector<float> table(1 << 16);
  for (float& value : table) value = normal(bits);
  std::uint32_t state = seed * 2654435761U + 1;
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    state = state * 1664525U + 1013904223U;
    float const size = 1.0F + static_cast<float>(i / columns % 7);
    all[static_cast<std::size_t>(i)] = __float2bfloat16(size * table[state >> 16]);
  }
  return all;
}

struct Linear {
  char const* name;
  std::int64_t in, out;
};

/// h 8192, 64 heads of 128, 8 of keys and values, 28672 in the gated MLP; a rank of eight.
struct Shard {
  std::int64_t tokens;
  std::vector<Linear> linears;
};
inline Shard shard_of_70b() {
  return {8192,
          {{"qkv", 8192, 1280},
           {"projection", 1024, 8192},
           {"gate_up", 8192, 7168},
           {"down", 3584, 8192}}};
}
inline Shard small_shard() {
  return {256,
          {{"qkv", 256, 384}, {"projection", 128, 256}, {"gate_up", 256, 256}, {"down", 128, 256}}};
}

inline std::string number(std::optional<double> value) {
  if (!value) return "null";
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", *value);
  return text;
}

/// One line of the output.
class Line {
 public:
  Line(char const* kind, std::string const& fields)
      : text_{std::string{"{\"kind\": \""} + kind + "\", " + fields} {}
  void add(std::string const& key, std::optional<double> value) {
    text_ += ", \"" + key + "\": " + number(value);
  }
  /// At once, so that a program that is cut off has written what it measured.
  void write() const {
    std::printf("%s}\n", text_.c_str());
    std::fflush(stdout);
  }

 private:
  std::string text_;
};

inline void write_facts(char const* device, std::int64_t tokens) {
  Line facts{"facts", std::string{"\"device\": \""} + device + "\""};
  facts.add("cublaslt", static_cast<double>(cublasLtGetVersion()));
  facts.add("tokens", static_cast<double>(tokens));
  facts.write();
}

inline std::string named(std::string const& linear, char const* key, char const* value) {
  return "\"linear\": \"" + linear + "\", \"" + key + "\": \"" + value + "\"";
}
inline char const* name_of(Scaling scaling) {
  return scaling == Scaling::tensor ? "tensor" : "blocks";
}

inline double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

/// The three tensors of a linear layer, and the scalings of a recipe.
constexpr char const* tensor_names[] = {"input", "weight", "gradient"};
inline Scaling scaling_of(bool is_blocks, int tensor) {
  if (!is_blocks) return Scaling::tensor;
  return tensor == 1 ? Scaling::blocks : Scaling::rows;
}
inline Format format_of(bool is_blocks, int tensor) {
  return !is_blocks && tensor == 2 ? e5m2 : e4m3;
}

/// Both copies of a tensor on the CPU.
struct HostCopies {
  std::vector<std::uint8_t> bytes[2];
  std::vector<float> inverses[2];
  Quantised copy[2];

  HostCopies(std::vector<__nv_bfloat16> const& x,
             std::int64_t rows,
             std::int64_t columns,
             Format format,
             Scaling scaling) {
    for (int i = 0; i < 2; ++i) {
      copy[i] = {
          i == 0 ? rows : columns, i == 0 ? columns : rows, nullptr, nullptr, format, scaling};
      bytes[i].resize(static_cast<std::size_t>(rows * columns));
      inverses[i].resize(static_cast<std::size_t>(copy[i].scales()));
      copy[i].values = bytes[i].data();
      copy[i].inverses = inverses[i].data();
      quantise_on_cpu(x, copy[i], i == 1);
    }
  }
};

/// The operands of a pass among (tensor, copy): forward X W^T, gradients of input G (W^T)^T and
/// weight G^T (X^T)^T.
struct Pass {
  char const* name;
  int a_tensor, a_copy, b_tensor, b_copy;
};
constexpr Pass passes[] = {
    {"forward", 0, 0, 1, 0}, {"input_gradient", 2, 0, 1, 1}, {"weight_gradient", 2, 1, 0, 1}};

}  // namespace fp8
