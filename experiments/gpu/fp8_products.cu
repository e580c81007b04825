// Measures the products of a transformer layer's shard in bf16 and in FP8, and what FP8 needs
// beside them: the largest absolute value of a tensor, and its values and their transpose in 8
// bits; and a copy within the device, which no kernel's rate exceeds. Writes JSON, a line for each
// thing that was measured.
//
// usage: fp8_products [--cpu]     --cpu: small shapes, by the reference that checks the device's
// results
//
// The layer is Llama 3 70B's, one of eight tensor ranks, one sequence of 8192 tokens. FP8 has one
// scale for a tensor (forward e4m3, gradients e5m2), or one for each 1 x 128 values of activations
// and gradients and each 128 x 128 of weights (all e4m3; DeepSeek-V3, arXiv:2412.19437,
// section 3.3). A product of FP8 has both operands with the summed index innermost, so that
// backward needs transposes.

#include <string_view>

#include "experiments/gpu/fp8_kernels.cuh"

namespace fp8 {
namespace {

/// ||8-bit product - product|| / ||product|| of a sample, by the reference alone.
int run_on_cpu() {
  Shard const shard = small_shard();
  write_facts("cpu", shard.tokens);
  for (Linear const& linear : shard.linears) {
    std::int64_t const rows[] = {shard.tokens, linear.out, shard.tokens},
                       columns[] = {linear.in, linear.in, linear.out};
    std::vector<__nv_bfloat16> x[3];
    for (int t = 0; t < 3; ++t)
      x[t] = random_values(rows[t], columns[t], static_cast<unsigned>(t + 1));
    for (Pass const& pass : passes) {
      Line line{"product", named(linear.name, "pass", pass.name)};
      for (bool const is_blocks : {false, true}) {
        auto const begin = std::chrono::steady_clock::now();
        auto const copies_of = [&](int t) {
          return HostCopies{x[t], rows[t], columns[t], format_of(is_blocks, t),
                            scaling_of(is_blocks, t)};
        };
        HostCopies const left = copies_of(pass.a_tensor), right = copies_of(pass.b_tensor);
        Quantised const &a = left.copy[pass.a_copy], &b = right.copy[pass.b_copy];
        auto const value = [&](int t, int copy, std::int64_t r, std::int64_t c) {
          std::int64_t const i = copy == 0 ? r * columns[t] + c : c * columns[t] + r;
          return static_cast<double>(__bfloat162float(x[t][static_cast<std::size_t>(i)]));
        };
        double difference = 0, norm = 0;
        for (std::int64_t i = 0; i < 64; ++i) {
          std::int64_t const r = i * 37 % a.rows, c = i * 53 % b.rows;
          double sum = 0;
          for (std::int64_t k = 0; k < a.columns; ++k) {
            sum +=
                value(pass.a_tensor, pass.a_copy, r, k) * value(pass.b_tensor, pass.b_copy, c, k);
          }
          difference += std::pow(exact(a, b, r, c) - sum, 2);
          norm += sum * sum;
        }
        double const error = std::sqrt(difference / norm);
        std::string const recipe = name_of(scaling_of(is_blocks, 1));
        line.add(recipe + "_seconds",
                 std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
        line.add(recipe + "_rounding", error);
        // A value of e4m3 is rounded by 1/16 at most, of e5m2 by 1/8, and a product has two.
        if (!(error < (is_blocks || pass.a_tensor != 2 ? 1.0 / 8 : 3.0 / 16))) {
          std::fprintf(stderr, "%s %s: 8 bits differ by %g\n", linear.name, pass.name, error);
          return 1;
        }
      }
      line.write();
    }
  }
  return 0;
}

// ---- on a device

template <typename T>
T* allocate(std::int64_t elements) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, static_cast<std::size_t>(elements) * sizeof(T)), "cudaMalloc");
  return static_cast<T*>(memory);
}

/// Median seconds of launches on the default stream.
template <typename Launch>
double seconds_of(Launch const& launch, int repeats) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  launch();
  std::vector<double> all;
  for (int i = 0; i < repeats; ++i) {
    float milliseconds = 0;
    check(cudaEventRecord(begin), "cudaEventRecord");
    launch();
    check(cudaEventRecord(end), "cudaEventRecord");
    check(cudaEventSynchronize(end), "cudaEventSynchronize");
    check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    all.push_back(1e-3 * milliseconds);
  }
  check(cudaEventDestroy(begin), "cudaEventDestroy");
  check(cudaEventDestroy(end), "cudaEventDestroy");
  return median(all);
}

/// An operand of a product: row-major [rows, k] if `k_inner`, else [k, rows].
struct Side {
  void* data;
  bool k_inner;
  cudaDataType_t type;
  float* scale = nullptr;
  cublasLtMatmulMatrixScale_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
};
Side side_of(Quantised const& matrix) {
  constexpr cublasLtMatmulMatrixScale_t modes[] = {CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,
                                                   CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F,
                                                   CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F};
  return {matrix.values, true, matrix.format.name == __NV_E4M3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2,
          matrix.inverses, modes[static_cast<int>(matrix.scaling)]};
}

/// C [m, n] (+)= A B^T in row-major order, which is B A^T in cuBLASLt's.
struct Product {
  Side a, b;
  std::int64_t m, n, k;
  void* c;
  bool accumulates;  ///< into fp32; else C is bf16
  /// Whether sums may be kept in the tensor cores' 14 bits, as Transformer Engine does in forward.
  bool is_fast = false;
};

/// The fastest of the heuristic's first algorithms; nullopt if there is none.
std::optional<double> time_product(cublasLtHandle_t lt,
                                   Product const& p,
                                   void* workspace,
                                   std::size_t bytes) {
  bool const is_narrow = p.a.scale != nullptr;
  cublasLtMatmulDesc_t operation;
  check(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  auto const set = [&](cublasLtMatmulDescAttributes_t which, auto value) {
    check(cublasLtMatmulDescSetAttribute(operation, which, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, p.b.k_inner ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, p.a.k_inner ? CUBLAS_OP_N : CUBLAS_OP_T);
  if (is_narrow) {
    set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(p.is_fast));
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, p.b.mode);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, p.a.mode);
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.b.scale);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.a.scale);
  }
  auto const layout = [](cudaDataType_t type, std::int64_t rows, std::int64_t columns) {
    cublasLtMatrixLayout_t made;
    check(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(rows),
                                     static_cast<std::uint64_t>(columns), rows),
          "cublasLtMatrixLayoutCreate");
    return made;
  };
  auto const of = [&](Side const& side, std::int64_t rows) {
    return side.k_inner ? layout(side.type, p.k, rows) : layout(side.type, rows, p.k);
  };
  cublasLtMatrixLayout_t const first = of(p.b, p.n), second = of(p.a, p.m);
  cublasLtMatrixLayout_t const result = layout(p.accumulates ? CUDA_R_32F : CUDA_R_16BF, p.n, p.m);
  cublasLtMatmulPreference_t preference;
  check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &bytes, sizeof bytes),
        "cublasLtMatmulPreferenceSetAttribute");
  constexpr int most = 8;
  cublasLtMatmulHeuristicResult_t found[most];
  int count = 0;
  if (cublasLtMatmulAlgoGetHeuristic(lt, operation, first, second, result, result, preference, most,
                                     found, &count) != CUBLAS_STATUS_SUCCESS) {
    count = 0;
  }
  std::optional<double> best;
  cublasLtMatmulAlgo_t fastest{};
  float const one = 1, beta = p.accumulates ? 1.0F : 0.0F;
  auto const multiply = [&](cublasLtMatmulAlgo_t const& algorithm) {
    return cublasLtMatmul(lt, operation, &one, p.b.data, first, p.a.data, second, &beta, p.c,
                          result, p.c, result, &algorithm, workspace, bytes, nullptr);
  };
  for (int i = 0; i < count; ++i) {
    auto const launch = [&] { return multiply(found[i].algo); };
    if (launch() != CUBLAS_STATUS_SUCCESS) continue;
    double const seconds = seconds_of([&] { check(launch(), "cublasLtMatmul"); }, 11);
    if (best && seconds >= *best) continue;
    best = seconds;
    fastest = found[i].algo;
  }
  if (best) {
    // What is checked is one product.
    check(cudaMemset(p.c, 0, static_cast<std::size_t>(p.m * p.n) * (p.accumulates ? 4 : 2)),
          "cudaMemset");
    check(multiply(fastest), "cublasLtMatmul");
  }
  check(cublasLtMatmulPreferenceDestroy(preference), "cublasLtMatmulPreferenceDestroy");
  for (cublasLtMatrixLayout_t made : {first, second, result})
    check(cublasLtMatrixLayoutDestroy(made), "cublasLtMatrixLayoutDestroy");
  check(cublasLtMatmulDescDestroy(operation), "cublasLtMatmulDescDestroy");
  return best;
}

template <typename T>
std::vector<T> downloaded(T const* from, std::int64_t elements) {
  std::vector<T> all(static_cast<std::size_t>(elements));
  check(cudaMemcpy(all.data(), from, all.size() * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
  return all;
}

/// A copy of what is on the device.
struct Downloaded {
  std::vector<std::uint8_t> values;
  std::vector<float> inverses;
  Quantised matrix;

  explicit Downloaded(Quantised const& of)
      : values{downloaded(of.values, of.rows * of.columns)},
        inverses{downloaded(of.inverses, of.scales())},
        matrix{of} {
    matrix.values = values.data();
    matrix.inverses = inverses.data();
  }
};

/// ||C - exact|| / ||exact|| of a sample of places.
double error_of(Product const& p, Quantised const& a, Quantised const& b) {
  Downloaded const left{a}, right{b};
  double difference = 0, norm = 0;
  for (std::int64_t i = 0; i < 64; ++i) {
    std::int64_t const r = i * 1237 % p.m, c = i * 2531 % p.n, at = r * p.n + c;
    double const wanted = exact(left.matrix, right.matrix, r, c);
    double const got =
        p.accumulates ? downloaded(static_cast<float*>(p.c) + at, 1)[0]
                      : __bfloat162float(downloaded(static_cast<__nv_bfloat16*>(p.c) + at, 1)[0]);
    difference += std::pow(got - wanted, 2);
    norm += wanted * wanted;
  }
  return std::sqrt(difference / norm);
}

/// A tensor on the device, and its copies by a recipe.
struct Tensor {
  std::int64_t rows, columns;
  __nv_bfloat16* values;
  float* largest;
  Quantised copy[2];

  void launch_largest() const {
    check(cudaMemsetAsync(largest, 0, sizeof(float), nullptr), "cudaMemsetAsync");
    find_largest<<<1024, threads>>>(values, rows * columns, reinterpret_cast<int*>(largest));
    check(cudaGetLastError(), "find_largest");
  }
  void launch_quantise() const {
    if (copy[0].scaling == Scaling::tensor) launch_largest();
    dim3 const blocks{static_cast<unsigned>(columns / tile), static_cast<unsigned>(rows / tile)};
    auto* const kernel =
        copy[0].format.name == __NV_E4M3 ? quantise<__NV_E4M3> : quantise<__NV_E5M2>;
    kernel<<<blocks, threads>>>(values, copy[0], copy[1], largest);
    check(cudaGetLastError(), "quantise");
  }
  /// What launch_quantise() reads and writes, scales aside.
  double bytes() const {
    int const reads = copy[0].scaling == Scaling::tensor ? 2 : 1;
    return static_cast<double>(rows * columns) * (reads * sizeof(__nv_bfloat16) + 2);
  }
};

/// Whether the device's copies are the reference's, bit for bit.
bool is_as_on_cpu(Tensor const& tensor, std::vector<__nv_bfloat16> const& x) {
  HostCopies const wanted{x, tensor.rows, tensor.columns, tensor.copy[0].format,
                          tensor.copy[0].scaling};
  for (int i = 0; i < 2; ++i) {
    Downloaded const got{tensor.copy[i]};
    if (got.values != wanted.bytes[i]) return false;
    // What pads a row of scales is written by nobody.
    for (std::int64_t r = 0; r < got.matrix.rows; r += 17) {
      for (std::int64_t c = 0; c < got.matrix.columns; c += tile) {
        auto const at = static_cast<std::size_t>(got.matrix.place(r, c));
        if (got.inverses[at] != wanted.inverses[i][at]) return false;
      }
    }
  }
  return true;
}

void measure_copy() {
  constexpr std::size_t bytes = std::size_t{256} << 20;
  auto* const from = allocate<std::uint8_t>(bytes);
  auto* const to = allocate<std::uint8_t>(bytes);
  check(cudaMemset(from, 1, bytes), "cudaMemset");
  Line line{"memcpy", "\"within\": \"device\""};
  line.add("bytes", 2.0 * bytes);  // read and written
  line.add("seconds", seconds_of(
                          [&] {
                            check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice),
                                  "cudaMemcpyAsync");
                          },
                          11));
  line.write();
  check(cudaFree(from), "cudaFree");
  check(cudaFree(to), "cudaFree");
}

int run_on_device() {
  cudaDeviceProp device;
  check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  cublasLtHandle_t lt;
  check(cublasLtCreate(&lt), "cublasLtCreate");
  constexpr std::size_t workspace_bytes = std::size_t{32} << 20;
  void* const workspace = allocate<std::uint8_t>(workspace_bytes);
  Shard const shard = shard_of_70b();
  write_facts(device.name, shard.tokens);
  measure_copy();
  bool is_right = true;
  for (Linear const& linear : shard.linears) {
    std::int64_t const rows[] = {shard.tokens, linear.out, shard.tokens},
                       columns[] = {linear.in, linear.in, linear.out};
    std::vector<__nv_bfloat16> x[3];
    Tensor tensors[3];
    for (int t = 0; t < 3; ++t) {
      x[t] = random_values(rows[t], columns[t], static_cast<unsigned>(t + 1));
      std::int64_t const elements = rows[t] * columns[t];
      tensors[t] = {rows[t], columns[t], allocate<__nv_bfloat16>(elements), allocate<float>(1), {}};
      check(cudaMemcpy(tensors[t].values, x[t].data(), x[t].size() * sizeof(__nv_bfloat16),
                       cudaMemcpyHostToDevice),
            "cudaMemcpy");
      for (Quantised& copy : tensors[t].copy) {
        copy.values = allocate<std::uint8_t>(elements);
        copy.inverses = allocate<float>(elements / tile + tile);
        check(cudaMemset(copy.inverses, 0,
                         static_cast<std::size_t>(elements / tile + tile) * sizeof(float)),
              "cudaMemset");
      }
    }
    std::int64_t const most =
        std::max({shard.tokens * linear.out, shard.tokens * linear.in, linear.in * linear.out});
    void* const c = allocate<float>(most);
    std::optional<double> seconds[3][3], errors[3][3], is_bf16[3][3];
    for (int p = 0; p < 3; ++p) {
      Pass const& pass = passes[p];
      auto const side = [&](int t, int copy) {
        return Side{tensors[t].values, copy == 0, CUDA_R_16BF};
      };
      auto const extent = [&](int t, int copy, bool inner) {
        return (copy == 0) == inner ? columns[t] : rows[t];
      };
      Product product{side(pass.a_tensor, pass.a_copy),
                      side(pass.b_tensor, pass.b_copy),
                      extent(pass.a_tensor, pass.a_copy, false),
                      extent(pass.b_tensor, pass.b_copy, false),
                      extent(pass.a_tensor, pass.a_copy, true),
                      c,
                      p == 2};
      seconds[p][0] = time_product(lt, product, workspace, workspace_bytes);
    }
    for (int recipe = 1; recipe <= 2; ++recipe) {
      bool const is_blocks = recipe == 2;
      for (int t = 0; t < 3; ++t) {
        Tensor& tensor = tensors[t];
        for (int i = 0; i < 2; ++i) {
          Quantised& copy = tensor.copy[i];
          copy = {i == 0 ? rows[t] : columns[t],
                  i == 0 ? columns[t] : rows[t],
                  copy.values,
                  copy.inverses,
                  format_of(is_blocks, t),
                  scaling_of(is_blocks, t)};
        }
        Line line{"copy", named(linear.name, "tensor", tensor_names[t]) + ", \"recipe\": \"" +
                              name_of(scaling_of(is_blocks, 1)) + "\""};
        line.add("bytes", tensor.bytes());
        line.add("seconds", seconds_of([&] { tensor.launch_quantise(); }, 11));
        line.add("largest_seconds", seconds_of([&] { tensor.launch_largest(); }, 11));
        // The reference takes a second for 10 million values: one of each scaling is enough.
        if (t < 2 && linear.in < 2048) {
          bool const same = is_as_on_cpu(tensor, x[t]);
          line.add("as_on_cpu", same ? 1 : 0);
          is_right = is_right && same;
        }
        line.write();
      }
      for (int p = 0; p < 3; ++p) {
        Pass const& pass = passes[p];
        Quantised const &a = tensors[pass.a_tensor].copy[pass.a_copy],
                        &b = tensors[pass.b_tensor].copy[pass.b_copy];
        Product product{side_of(a), side_of(b), a.rows, b.rows,
                        a.columns,  c,          p == 2, p == 0 && !is_blocks};
        seconds[p][recipe] = time_product(lt, product, workspace, workspace_bytes);
        if (!seconds[p][recipe] && product.accumulates) {
          product.accumulates = false;
          seconds[p][recipe] = time_product(lt, product, workspace, workspace_bytes);
          is_bf16[p][recipe] = 1;
        }
        if (!seconds[p][recipe]) continue;
        errors[p][recipe] = error_of(product, a, b);
        // bf16 keeps 8 bits. Fast sums have 14, and each addition cuts off the rest: nearly 2 % at
        // most for a k of 4096 (DeepSeek-V3, section 3.3.2).
        is_right = is_right && *errors[p][recipe] < (product.is_fast ? 3e-2 : 1e-2);
      }
    }
    for (int p = 0; p < 3; ++p) {
      Line line{"product", named(linear.name, "pass", passes[p].name)};
      line.add("flops", 2.0 * static_cast<double>(shard.tokens * linear.in * linear.out));
      line.add("bf16_seconds", seconds[p][0]);
      line.add("tensor_seconds", seconds[p][1]);
      line.add("blocks_seconds", seconds[p][2]);
      line.add("tensor_error", errors[p][1]);
      line.add("blocks_error", errors[p][2]);
      line.add("tensor_is_bf16", is_bf16[p][1]);
      line.add("blocks_is_bf16", is_bf16[p][2]);
      line.write();
    }
    for (Tensor const& tensor : tensors) {
      for (void* memory :
           {static_cast<void*>(tensor.values), static_cast<void*>(tensor.largest),
            static_cast<void*>(tensor.copy[0].values), static_cast<void*>(tensor.copy[1].values),
            static_cast<void*>(tensor.copy[0].inverses),
            static_cast<void*>(tensor.copy[1].inverses)}) {
        check(cudaFree(memory), "cudaFree");
      }
    }
    check(cudaFree(c), "cudaFree");
  }
  if (!is_right)
    std::fprintf(stderr, "a result is not the reference's: see errors and as_on_cpu\n");
  return is_right ? 0 : 1;
}

}  // namespace
}  // namespace fp8

int main(int count, char** words) {
  bool const on_cpu = count > 1 && std::string_view{words[1]} == "--cpu";
  return on_cpu ? fp8::run_on_cpu() : fp8::run_on_device();
}
