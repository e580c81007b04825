#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "libexec/kernels/low_formats.hpp"
#include "libexec/kernels/operands/quantised_operands.hpp"
#include "libsim/program/quantisation.hpp"
#include "tests/libexec/kernels/kernel_test.hpp"

namespace stagecraft::test::low_precision_test {
namespace {

/// What experiments/low_precision/record.py has recorded of others.
nlohmann::json const& recorded() {
  static nlohmann::json const all = [] {
    std::ifstream file{std::string{STAGECRAFT_SOURCE_DIR} +
                       "/tests/libexec/reference/low_precision.json"};
    return nlohmann::json::parse(file);
  }();
  return all;
}

/// Bytes that are given in hexadecimal, as elements of T.
template <typename T>
std::vector<T> elements_of_text(std::string const& text) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  std::vector<T> elements(bytes.size() / sizeof(T));
  std::memcpy(elements.data(), bytes.data(), bytes.size());
  return elements;
}

/// bf16 numbers as record.py draws them.
TestTensor drawn_matrix(std::int64_t rows, std::int64_t columns, std::uint64_t state) {
  TestTensor matrix{ElementType::bf16, {rows, columns}};
  auto* const bits = static_cast<std::uint16_t*>(matrix.operand().data);
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    auto const word = static_cast<std::uint32_t>(state >> 32);
    bits[i] = static_cast<std::uint16_t>((word >> 31 << 15) | ((118 + (word >> 8) % 16) << 7) |
                                         (word & 0x7FU));
  }
  return matrix;
}

ElementType type_named(std::string const& name) {
  return name == "f8_e4m3"   ? ElementType::f8_e4m3
         : name == "f8_e5m2" ? ElementType::f8_e5m2
                             : ElementType::f4_e2m1;
}

/// A quantised tensor that owns its memory.
class QuantisedTensor {
 public:
  QuantisedTensor(ElementType type, Shape const& shape, ScaleLayout const& scales)
      : type_{type}, shape_{shape}, scales_{scales} {
    bytes_.resize(
        static_cast<std::size_t>(bytes_of(shape.elements(), type).count() + scales.bytes));
  }
  Operand operand() {
    return {
        .data = bytes_.data(), .type = type_, .shape = shape_, .strides = {}, .scales = scales_};
  }
  std::vector<std::uint8_t> codes() const {
    auto const end = bytes_.end() - static_cast<std::ptrdiff_t>(scales_.bytes);
    return {bytes_.begin(), end};
  }
  std::uint8_t const* scales() const { return bytes_.data() + codes().size(); }

  /// The numbers that the elements stand for.
  std::vector<float> numbers() {
    QuantisedMatrix const matrix{{}, operand()};
    std::vector<float> values(static_cast<std::size_t>(shape_.elements()));
    for (std::int64_t row = 0; row < shape_[0]; ++row) {
      matrix.read(row, 0, shape_[1], values.data() + row * shape_[1]);
    }
    return values;
  }

 private:
  ElementType type_;
  Shape shape_;
  ScaleLayout scales_;
  std::vector<std::uint8_t> bytes_;
};

QuantisedTensor quantised(Recipe recipe,
                          ElementType type,
                          ScaledRole role,
                          TestTensor const& x,
                          bool by_columns,
                          std::int64_t groups = 1) {
  ScaledMatrix const matrix{.rows = x.shape()[0], .columns = x.shape()[1], .groups = groups};
  QuantisedTensor made{type, x.shape(),
                       scale_layout(*find_recipe(recipe), role, matrix, by_columns)};
  KernelCall call = make_call(OpKind::quantise, {x.operand()}, {made.operand()});
  call.attributes = QuantiseAttributes{recipe};
  run(whole(small_model()), call);
  return made;
}

std::uint8_t code_of(ElementType type, float x) {
  return type == ElementType::f8_e4m3   ? encode<e4m3>(x)
         : type == ElementType::f8_e5m2 ? encode<e5m2>(x)
                                        : encode<e2m1>(x);
}

TEST_CASE("every code of 8 and 4 bits is the number that ml_dtypes has for it", "[low]") {
  for (auto const& [name, format] : recorded()["formats"].items()) {
    CAPTURE(name);
    std::vector<float> const numbers = elements_of_text<float>(format["numbers"]);
    REQUIRE(numbers.size() == (name == "f4_e2m1" ? 16 : 256));
    for (std::uint32_t code = 0; code < numbers.size(); ++code) {
      CAPTURE(code);
      float const got =
          name == "e8m0" ? decode_e8m0(code) : numbers_of_type(type_named(name))[code];
      if (std::isnan(numbers[code])) {
        CHECK(std::isnan(got));
      } else {
        CHECK(got == numbers[code]);
        CHECK(std::signbit(got) == std::signbit(numbers[code]));
      }
    }
  }
}

TEST_CASE(
    "floats round to the codes that ml_dtypes has: ties to even, and never beyond the largest",
    "[low]") {
  for (auto const& [name, format] : recorded()["formats"].items()) {
    if (name == "e8m0") continue;
    CAPTURE(name);
    std::vector<float> const floats = elements_of_text<float>(format["floats"]);
    std::vector<std::uint8_t> const codes = elements_of_text<std::uint8_t>(format["codes"]);
    REQUIRE(floats.size() > 2000);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < floats.size(); ++i) {
      std::uint8_t const got = code_of(type_named(name), floats[i]);
      if (got == codes[i]) continue;
      if (++wrong < 5)
        UNSCOPED_INFO(floats[i] << " became " << int{got} << ", not " << int{codes[i]});
    }
    CHECK(wrong == 0);
  }
  CHECK(std::isnan(numbers_of<e4m3>[encode<e4m3>(NAN)]));
  CHECK(std::isnan(numbers_of<e5m2>[encode<e5m2>(NAN)]));
}

TEST_CASE("a power of two that scales is the least one that is not below", "[low]") {
  std::mt19937 engine{3};
  for (int i = 0; i < 2000; ++i) {
    float const x = std::ldexp(1 + static_cast<float>(engine() % 4) / 4,
                               static_cast<int>(engine() % 250) - 126);
    float const power = decode_e8m0(encode_e8m0_up(x));
    int exponent = 0;
    float const fraction = std::frexp(x, &exponent);
    double const wanted = std::ldexp(1.0, fraction == 0.5F ? exponent - 1 : exponent);
    CHECK(power == std::min(wanted, std::ldexp(1.0, 127)));
  }
}

TEST_CASE("quantised tensors and their scales have the bits of torchao and Transformer Engine",
          "[low]") {
  for (nlohmann::json const& one : recorded()["cases"]) {
    std::string const name = one["recipe"];
    ElementType const type = type_named(one["type"]);
    bool const by_columns = one["by_columns"];
    bool const of_weight = one["weight"];
    CAPTURE(name, name_of(type), by_columns, of_weight);
    Recipe const recipe = value_named<Recipe>(name).value();
    TestTensor const x = drawn_matrix(one["rows"], one["columns"], one["seed"]);
    ScaledRole const role = of_weight ? ScaledRole::weight : ScaledRole::activation;
    QuantisedTensor const made = quantised(recipe, type, role, x, by_columns);
    CHECK(made.codes() == elements_of_text<std::uint8_t>(one["codes"]));

    RecipeTraits const& traits = *find_recipe(recipe);
    std::vector<std::uint8_t> const wanted = elements_of_text<std::uint8_t>(one["scales"]);
    ScaleBlocks const& blocks = of_weight ? traits.of_weights : traits.of_activations;
    // Theirs are not padded; ours have `step` along, of which they have `along`.
    std::int64_t const length = by_columns ? x.shape()[0] : x.shape()[1];
    std::int64_t const along = blocks.along == 0 ? 1 : (length + blocks.along - 1) / blocks.along;
    std::int64_t const step = (along + blocks.pad_along - 1) / blocks.pad_along * blocks.pad_along;
    auto const size = static_cast<std::size_t>(element_size(traits.scale_type));
    std::size_t const rows = wanted.size() / size / static_cast<std::size_t>(along);
    for (std::size_t i = 0; i < rows; ++i) {
      std::size_t const bytes = static_cast<std::size_t>(along) * size;
      std::uint8_t const* const ours = made.scales() + i * static_cast<std::size_t>(step) * size;
      CHECK(std::vector<std::uint8_t>(ours, ours + bytes) ==
            std::vector<std::uint8_t>(wanted.data() + i * bytes, wanted.data() + (i + 1) * bytes));
    }
    if (!traits.has_tensor_scale) continue;
    ScaledMatrix const matrix{.rows = x.shape()[0], .columns = x.shape()[1]};
    std::uint8_t const* const end =
        made.scales() + scale_layout(traits, role, matrix, by_columns).bytes;
    CHECK(std::vector<std::uint8_t>(end - 4, end) ==
          elements_of_text<std::uint8_t>(one["tensor_scale"]));
  }
}

/// Half the distance of neighbours, relative to the smaller one: 2^-(1 + bits of the fraction).
double half_step(ElementType type) { return std::ldexp(1.0, -1 - format_of(type).fraction_bits); }

TEST_CASE(
    "products of quantised operands are within the rounding of their formats of the exact ones",
    "[low]") {
  // With u the relative half step of a format, |q(x) - x| <= u |x| for normal numbers, and elements
  // below them are off by at most the smallest number times u and their scale. So is each product
  // within 2 u + u^2 of |a| |b|, summed (Higham 2002, Accuracy and Stability, section 3.1).
  auto const recipe =
      GENERATE(Recipe::current, Recipe::rowwise, Recipe::blockwise, Recipe::mxfp8, Recipe::nvfp4);
  auto const kind = GENERATE(GemmKind::plain, GemmKind::openblas);
  bool const transpose_a = GENERATE(false, true);
  bool const transpose_b = GENERATE(false, true);
  CAPTURE(name_of(recipe), transpose_a, transpose_b);
  GemmShape const g{.batch = 1,
                    .m = 48,
                    .n = 160,
                    .k = 288,
                    .transpose_a = transpose_a,
                    .transpose_b = transpose_b};
  TestTensor const a =
      TestTensor::random(ElementType::bf16, transpose_a ? Shape{g.k, g.m} : Shape{g.m, g.k}, 1);
  TestTensor const b =
      TestTensor::random(ElementType::bf16, transpose_b ? Shape{g.n, g.k} : Shape{g.k, g.n}, 2);
  ElementType const type = find_recipe(recipe)->elements;
  QuantisedTensor low_a = quantised(recipe, type, ScaledRole::activation, a, transpose_a);
  QuantisedTensor low_b = quantised(recipe, type, ScaledRole::weight, b, !transpose_b);
  TestTensor const c{ElementType::f32, {g.m, g.n}};
  KernelCall call = make_call(OpKind::gemm, {low_a.operand(), low_b.operand()}, {c.operand()});
  call.attributes = GemmAttributes{g, ElementType::f32, type, type};
  run(whole(small_model(Precision::bf16)), call, {.gemm = kind});
  double const u = half_step(type);
  // Scales in E4M3 round the largest elements, too, and may cut them.
  double const of_scale = recipe == Recipe::nvfp4 ? half_step(ElementType::f8_e4m3) : 0;
  double const each = (1 + u) * (1 + of_scale) - 1;
  double const allowed = 2 * each + each * each;
  // 1 is the largest element. A number below the normal ones is off by half the smallest one.
  float const largest = format_of(type).largest;
  double const smallest = std::ldexp(2.0, format_of(type).least_exponent) * u / largest * 2;
  std::vector<double> const high_a = a.values();
  std::vector<double> const high_b = b.values();
  std::vector<float> const of_a = low_a.numbers();
  std::vector<float> const of_b = low_b.numbers();
  for (std::int64_t i = 0; i < g.m; ++i) {
    for (std::int64_t j = 0; j < g.n; ++j) {
      double exact = 0;
      double low = 0;
      double bound = 0;
      double magnitudes = 0;
      for (std::int64_t k = 0; k < g.k; ++k) {
        auto const at_a = static_cast<std::size_t>(transpose_a ? k * g.m + i : i * g.k + k);
        auto const at_b = static_cast<std::size_t>(transpose_b ? j * g.k + k : k * g.n + j);
        double const x = high_a[at_a];
        double const y = high_b[at_b];
        exact += x * y;
        magnitudes += std::abs(x * y);
        bound += allowed * std::abs(x * y) + smallest * (std::abs(x) + std::abs(y) + smallest);
        low += static_cast<double>(of_a[at_a]) * static_cast<double>(of_b[at_b]);
      }
      double const got = c[i * g.n + j];
      if (std::abs(got - exact) > bound) FAIL(got << " is not " << exact << " within " << bound);
      // Against the same operands, only sums in float differ.
      if (std::abs(got - low) > magnitudes * 1e-5) FAIL(got << " is not " << low);
    }
  }
}

TEST_CASE("groups of rows are scaled apart", "[low]") {
  TestTensor x = TestTensor::random(ElementType::bf16, {64, 32}, 5);
  for (std::int64_t i = 32 * 32; i < 64 * 32; ++i) x.set(i, 1000 * x[i]);
  for (Recipe const recipe : {Recipe::current, Recipe::nvfp4, Recipe::mxfp8}) {
    CAPTURE(name_of(recipe));
    ElementType const type = find_recipe(recipe)->elements;
    QuantisedTensor both = quantised(recipe, type, ScaledRole::activation, x, false, 2);
    TestTensor first{ElementType::bf16, {32, 32}};
    for (std::int64_t i = 0; i < 32 * 32; ++i) first.set(i, x[i]);
    QuantisedTensor alone = quantised(recipe, type, ScaledRole::activation, first, false);
    std::vector<float> const of_first = alone.numbers();
    std::vector<float> const of_both = both.numbers();
    REQUIRE(std::equal(of_first.begin(), of_first.end(), of_both.begin()));
  }
}

}  // namespace
}  // namespace stagecraft::test::low_precision_test
