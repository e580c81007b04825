// Products of cuBLASLt's emulation.
#include <cublasLt.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/libexec/cuda/device_objects.hpp"
#include "tests/libexec/cuda_emulation/emulation.hpp"

namespace stagecraft::emulation::test {
namespace {

using namespace stagecraft::test;

struct Matrix {
  cudaDataType type;
  std::uint64_t rows, columns;
  std::int64_t leading_dimension;
  std::int32_t count = 1;
  std::int64_t stride = 0;
};

/// Descriptions of D = op(A) op(B) + beta D, with what the heuristic answers.
class Setup {
 public:
  Setup(cublasOperation_t a_operation,
        cublasOperation_t b_operation,
        Matrix const& a,
        Matrix const& b,
        Matrix const& d,
        std::uint32_t alignment = 256,
        std::uint64_t workspace = 1 << 20)
      : is_double_{a.type == CUDA_R_64F} {
    REQUIRE(cublasLtCreate(&handle_) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(cublasLtMatmulDescCreate(
                &description_, is_double_ ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                is_double_ ? CUDA_R_64F : CUDA_R_32F) == CUBLAS_STATUS_SUCCESS);
    set(cublasLtMatmulDescSetAttribute, description_, CUBLASLT_MATMUL_DESC_TRANSA, a_operation);
    set(cublasLtMatmulDescSetAttribute, description_, CUBLASLT_MATMUL_DESC_TRANSB, b_operation);
    Matrix const* const matrices[] = {&a, &b, &d};
    for (int i = 0; i < 3; ++i) {
      Matrix const& m = *matrices[i];
      REQUIRE(cublasLtMatrixLayoutCreate(&layouts_[i], m.type, m.rows, m.columns,
                                         m.leading_dimension) == CUBLAS_STATUS_SUCCESS);
      set(cublasLtMatrixLayoutSetAttribute, layouts_[i], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
          m.count);
      set(cublasLtMatrixLayoutSetAttribute, layouts_[i],
          CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, m.stride);
    }
    REQUIRE(cublasLtMatmulPreferenceCreate(&preference_) == CUBLAS_STATUS_SUCCESS);
    set(cublasLtMatmulPreferenceSetAttribute, preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
        workspace);
    for (auto const matrix :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      set(cublasLtMatmulPreferenceSetAttribute, preference_, matrix, alignment);
    }
    results.resize(10);
    int returned = 0;
    status =
        cublasLtMatmulAlgoGetHeuristic(handle_, description_, layouts_[0], layouts_[1], layouts_[2],
                                       layouts_[2], preference_, 10, results.data(), &returned);
    results.resize(static_cast<std::size_t>(returned));
  }
  ~Setup() {
    cublasLtMatmulPreferenceDestroy(preference_);
    for (auto const layout : layouts_) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(description_);
    cublasLtDestroy(handle_);
  }
  Setup(Setup const&) = delete;
  Setup(Setup&&) = delete;
  Setup& operator=(Setup const&) = delete;
  Setup& operator=(Setup&&) = delete;

  cublasStatus_t run(std::size_t algorithm,
                     double beta,
                     void const* a,
                     void const* b,
                     void* d,
                     DeviceArray<char> const* workspace = nullptr) const {
    Stream const stream;
    float const scales[] = {1, static_cast<float>(beta)};
    double const wide_scales[] = {1, beta};
    void const* const alpha = is_double_ ? static_cast<void const*>(wide_scales) : scales;
    void const* const factor = is_double_ ? static_cast<void const*>(wide_scales + 1) : scales + 1;
    return cublasLtMatmul(handle_, description_, alpha, a, layouts_[0], b, layouts_[1], factor, d,
                          layouts_[2], d, layouts_[2], &results.at(algorithm).algo,
                          workspace == nullptr ? nullptr : workspace->data(),
                          workspace == nullptr ? 0 : workspace->bytes(), stream);
  }

  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  std::vector<cublasLtMatmulHeuristicResult_t> results;

 private:
  template <typename Set, typename Object, typename Attribute, typename Value>
  static void set(Set const& function, Object object, Attribute attribute, Value value) {
    REQUIRE(function(object, attribute, &value, sizeof value) == CUBLAS_STATUS_SUCCESS);
  }

  bool is_double_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t description_ = nullptr;
  cublasLtMatrixLayout_t layouts_[3] = {};
  cublasLtMatmulPreference_t preference_ = nullptr;
};

// By hand: [1 3 5; 2 4 6] [1 4; 2 5; 3 6] = [22 49; 28 64], stored by columns.
template <typename T>
void multiply_by_hand(cudaDataType type) {
  auto const transposes_a = GENERATE(false, true);
  auto const transposes_b = GENERATE(false, true);
  CAPTURE(type, transposes_a, transposes_b);
  // Columns lie one element further apart than they need to: -1 is not to be read.
  std::vector<T> const a = transposes_a ? std::vector<T>{1, 3, 5, -1, 2, 4, 6, -1}
                                        : std::vector<T>{1, 2, -1, 3, 4, -1, 5, 6, -1};
  std::vector<T> const b = transposes_b ? std::vector<T>{1, 4, -1, 2, 5, -1, 3, 6, -1}
                                        : std::vector<T>{1, 2, 3, -1, 4, 5, 6, -1};
  DeviceArray<T> const device_a{a};
  DeviceArray<T> const device_b{b};
  Setup const setup{transposes_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                    transposes_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                    transposes_a ? Matrix{type, 3, 2, 4} : Matrix{type, 2, 3, 3},
                    transposes_b ? Matrix{type, 2, 3, 3} : Matrix{type, 3, 2, 4},
                    {type, 2, 2, 3}};
  REQUIRE(setup.status == CUBLAS_STATUS_SUCCESS);
  REQUIRE(setup.results.size() == 3);
  DeviceArray<char> const workspace{1 << 10};
  for (std::size_t algorithm = 0; algorithm < 3; ++algorithm) {
    DeviceArray<T> const d{std::vector<T>{100, 200, 7, 300, 400, 7}};
    REQUIRE(setup.run(algorithm, 2, device_a.data(), device_b.data(), d.data(), &workspace) ==
            CUBLAS_STATUS_SUCCESS);
    CHECK(d.values() == std::vector<T>{222, 428, 7, 649, 864, 7});
    // Without beta, what was there is not read: it is NaN.
    DeviceArray<T> const fresh{6};
    REQUIRE(setup.run(algorithm, 0, device_a.data(), device_b.data(), fresh.data(), &workspace) ==
            CUBLAS_STATUS_SUCCESS);
    auto const values = fresh.values();
    CHECK(std::vector<T>{values[0], values[1], values[3], values[4]} ==
          std::vector<T>{22, 28, 49, 64});
  }
}

TEST_CASE("products are those of a hand count, transposed or not, added or not", "[emulation]") {
  SECTION("float") { multiply_by_hand<float>(CUDA_R_32F); }
  SECTION("double") { multiply_by_hand<double>(CUDA_R_64F); }
}

TEST_CASE("a batch of 16-bit matrices is summed in float and stored in both types", "[emulation]") {
  // Two products [x 1] [y; 1]: 3 * 5 + 1, and 257 * 1 + 1 = 258, which bfloat16 holds and 257 not.
  auto const is_half = GENERATE(false, true);
  auto const type = is_half ? CUDA_R_16F : CUDA_R_16BF;
  // 1, 3, 5, 256 in both types.
  std::vector<std::uint16_t> const one_to_256 =
      is_half ? std::vector<std::uint16_t>{0x3C00, 0x4200, 0x4500, 0x5C00}
              : std::vector<std::uint16_t>{0x3F80, 0x4040, 0x40A0, 0x4380};
  auto const one = one_to_256[0];
  DeviceArray<std::uint16_t> const a{{one_to_256[1], one, one_to_256[3], one}};
  DeviceArray<std::uint16_t> const b{{one_to_256[2], one, one, one}};
  Matrix const row{type, 1, 2, 1, 2, 2};
  Matrix const column{type, 2, 1, 2, 2, 2};
  DeviceArray<float> const wide{2};
  Setup const to_float{CUBLAS_OP_N, CUBLAS_OP_N, row, column, {CUDA_R_32F, 1, 1, 1, 2, 1}};
  REQUIRE(to_float.run(0, 0, a.data(), b.data(), wide.data()) == CUBLAS_STATUS_SUCCESS);
  CHECK(wide.values() == std::vector<float>{16, 257});
  DeviceArray<std::uint16_t> const narrow{2};
  Setup const to_narrow{CUBLAS_OP_N, CUBLAS_OP_N, row, column, {type, 1, 1, 1, 2, 1}};
  REQUIRE(to_narrow.run(0, 0, a.data(), b.data(), narrow.data()) == CUBLAS_STATUS_SUCCESS);
  // 16, and 257 where the type has it, else 256 (a tie, to even).
  CHECK(narrow.values() == (is_half ? std::vector<std::uint16_t>{0x4C00, 0x5C04}
                                    : std::vector<std::uint16_t>{0x4180, 0x4380}));
}

TEST_CASE("each algorithm sums in an order of its own", "[emulation]") {
  // 1e8 + 1 is 1e8 in float.
  DeviceArray<float> const a{{1e8F, 1, -1e8F, 1}};
  DeviceArray<float> const b{{1, 1, 1, 1}};
  DeviceArray<float> const d{1};
  DeviceArray<char> const workspace{64};
  Setup const setup{CUBLAS_OP_N,
                    CUBLAS_OP_N,
                    {CUDA_R_32F, 1, 4, 1},
                    {CUDA_R_32F, 4, 1, 4},
                    {CUDA_R_32F, 1, 1, 1}};
  std::vector<float> sums;
  for (std::size_t i = 0; i < setup.results.size(); ++i) {
    REQUIRE(setup.run(i, 0, a.data(), b.data(), d.data(), &workspace) == CUBLAS_STATUS_SUCCESS);
    sums.push_back(d.values().front());
  }
  // Forwards ((1e8 + 1) - 1e8) + 1; halves (1e8 + 1) + (-1e8 + 1); backwards ((1 - 1e8) + 1) + 1e8.
  CHECK(sums == std::vector<float>{1, 0, 0});
}

TEST_CASE("the heuristic refuses what the library has no algorithm for", "[emulation]") {
  auto const answer = [](Matrix const& a, Matrix const& b, Matrix const& d, auto... more) {
    Setup const setup{CUBLAS_OP_N, CUBLAS_OP_N, a, b, d, more...};
    CHECK(setup.results.empty() == (setup.status != CUBLAS_STATUS_SUCCESS));
    return setup.status;
  };
  Matrix const square{CUDA_R_32F, 4, 4, 4};
  CHECK(answer(square, square, square) == CUBLAS_STATUS_SUCCESS);
  CHECK(answer({CUDA_R_32F, 4, 4, 3}, square, square) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(answer(square, {CUDA_R_32F, 5, 4, 5}, square) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(answer(square, square, {CUDA_R_32F, 4, 4, 4, 2, 16}) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(answer(square, {CUDA_R_16F, 4, 4, 4}, square) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(answer(square, square, {CUDA_R_16F, 4, 4, 4}) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(answer(square, square, square, 2U) == CUBLAS_STATUS_NOT_SUPPORTED);
  // Two 4 x 4 halves in float are 128 bytes.
  CHECK(Setup{CUBLAS_OP_N, CUBLAS_OP_N, square, square, square, 256U, 128U}.results.size() == 3);
  CHECK(Setup{CUBLAS_OP_N, CUBLAS_OP_N, square, square, square, 256U, 127U}.results.size() == 2);
}

TEST_CASE("a product checks its memory, its alignment and its workspace", "[emulation]") {
  DeviceArray<float> const a{std::vector<float>(20, 1.F)};
  DeviceArray<float> const d{20};
  Matrix const square{CUDA_R_32F, 4, 4, 4};
  Setup const setup{CUBLAS_OP_N, CUBLAS_OP_N, square, square, square};
  auto const refused = [&](cublasStatus_t status, char const* part) {
    CHECK(status == CUBLAS_STATUS_INVALID_VALUE);
    CHECK_THAT(cublasLtGetStatusString(status), Catch::Contains(part));
  };
  refused(setup.run(0, 0, nullptr, a.data(), d.data()), "A does not lie");
  refused(setup.run(0, 0, a.data(), a.data(), d.data() + 5), "D does not lie");
  refused(setup.run(0, 0, a.data() + 4, a.data(), d.data()), "not aligned to the 256 bytes");
  refused(setup.run(0, 0, a.data(), d.data(), d.data()), "D overlaps");
  refused(setup.run(1, 0, a.data(), a.data(), d.data()), "less workspace");
  Setup const loose{CUBLAS_OP_N, CUBLAS_OP_N, square, square, square, 16};
  REQUIRE(loose.run(0, 0, a.data() + 4, a.data(), d.data()) == CUBLAS_STATUS_SUCCESS);
  CHECK(d.values().front() == 4);
}

}  // namespace
}  // namespace stagecraft::emulation::test
