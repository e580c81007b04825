// The expected places are those of the figures in PTX ISA 9.0, 9.7.14.5.8 (mma.m16n8k16) and
// 9.7.14.5.15 (ldmatrix), read from a matrix's element to its thread.
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>

#include "tests/libexec/cuda_ptx/narrow_float.hpp"
#include "tests/libexec/cuda_ptx/snippet.hpp"

namespace stagecraft::ptx::test {
namespace {

using Catch::Matchers::Contains;
using Words = std::vector<std::uint32_t>;

void set_half(Words& words, std::size_t half, std::uint32_t bits) {
  words[half / 2] |= bits << (half % 2 * 16);
}

std::string product(std::string const& type, std::string const& guard) {
  return kernel_of(R"(
  ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%in16];
  mul.wide.u32 %rd1, %tid, 8;
  add.s64 %rd2, %in, %rd1;
  ld.global.v2.u32 {%r5, %r6}, [%rd2+512];
  mov.f32 %f1, 0f3F800000;
  setp.lt.u32 %p1, %tid, 16;
  )" + guard + "mma.sync.aligned.m16n8k16.row.col.f32." +
                   type + "." + type + R"(.f32
    {%f2, %f3, %f4, %f5}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f1, %f1, %f1, %f1};
  st.global.v4.f32 [%out16], {%f2, %f3, %f4, %f5};)");
}

TEST_CASE("a warp multiplies matrices whose elements lie where the ISA's figures have them",
          "[ptx]") {
  bool const is_bf16 = GENERATE(true, false);
  auto const bits_of = [&](int value) -> std::uint32_t {
    return is_bf16 ? BFloat16Format::nearest(value) : Float16Format::nearest(value);
  };
  auto const a = [](std::size_t row, std::size_t k) { return static_cast<int>(16 * row + k); };
  auto const b = [](std::size_t k, std::size_t column) {
    return static_cast<int>(k * k % 13 + 3 * column) - 9;
  };
  Words in(32 * 6);
  for (std::size_t k = 0; k < 16; ++k) {
    for (std::size_t row = 0; row < 16; ++row) {
      std::size_t const thread = row % 8 * 4 + k % 8 / 2;
      std::size_t const element = k % 2 + (row < 8 ? 0 : 2) + (k < 8 ? 0 : 4);
      set_half(in, thread * 8 + element, bits_of(a(row, k)));
    }
    for (std::size_t column = 0; column < 8; ++column) {
      std::size_t const thread = column * 4 + k % 8 / 2;
      std::size_t const element = k % 2 + (k < 8 ? 0 : 2);
      set_half(in, 256 + thread * 4 + element, bits_of(b(k, column)));
    }
  }
  Words const out = run_snippet(product(is_bf16 ? "bf16" : "f16", ""), in, 128);
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t column = 0; column < 8; ++column) {
      int sum = 1;
      for (std::size_t k = 0; k < 16; ++k) sum += a(row, k) * b(k, column);
      std::size_t const thread = row % 8 * 4 + column / 2;
      float found = 0;
      std::memcpy(&found, &out[thread * 4 + column % 2 + (row < 8 ? 0 : 2)], sizeof found);
      CAPTURE(is_bf16, row, column);
      REQUIRE(found == static_cast<float>(sum));
    }
  }
}

std::string matrix_load(std::string const& transposed, std::string const& address) {
  return kernel_of(R"(
  mov.u32 %r3, rows;
  shl.b32 %r4, %tid, 2;
  add.s32 %r4, %r3, %r4;
  ld.global.u32 %r1, [%in4];
  ld.global.u32 %r2, [%in4+128];
  st.shared.u32 [%r4], %r1;
  st.shared.u32 [%r4+128], %r2;
  bar.sync 0;
  and.b32 %r5, %tid, 15;
  shl.b32 %r5, %r5, 4;
  add.s32 %r6, %r3, %r5;
  ldmatrix.sync.aligned.m8n8.x2)" +
                       transposed + ".shared.b16 {%r7, %r8}, [" + address + R"(];
  st.global.u32 [%out4], %r7;
  st.global.u32 [%out4+128], %r8;)",
                   ".shared .align 16 .b8 rows[256];");
}

TEST_CASE("two matrices come from shared memory by rows, and with .trans by columns", "[ptx]") {
  bool const is_transposed = GENERATE(false, true);
  Words in(64);
  for (std::size_t i = 0; i < 128; ++i) set_half(in, i, static_cast<std::uint32_t>(i));
  Words const out = run_snippet(matrix_load(is_transposed ? ".trans" : "", "%r6"), in, 64);
  for (std::uint32_t matrix = 0; matrix < 2; ++matrix) {
    for (std::uint32_t row = 0; row < 8; ++row) {
      for (std::uint32_t column = 0; column < 8; ++column) {
        std::uint32_t const across = is_transposed ? column : row;
        std::uint32_t const along = is_transposed ? row : column;
        std::uint32_t const thread = 4 * across + along / 2;
        std::uint32_t const word = out[32 * matrix + thread];
        CAPTURE(is_transposed, matrix, row, column);
        REQUIRE((along % 2 == 0 ? word & 0xFFFFU : word >> 16) == 64 * matrix + 8 * row + column);
      }
    }
  }
}

TEST_CASE("rows of a matrix that are not aligned to 16 bytes are a fault", "[ptx]") {
  REQUIRE_THROWS_WITH(run_snippet(matrix_load("", "%r6+8"), Words(64), 64),
                      Contains("16 bytes at misaligned address"));
}

TEST_CASE("a product of matrices by a part of a warp is a fault", "[ptx]") {
  REQUIRE_THROWS_WITH(run_snippet(product("f16", "@%p1 "), Words(192), 128),
                      Contains("mma.sync") && Contains("executed by 16 lanes of a warp, not 32"));
}

TEST_CASE("16-bit formats have the values of IEEE 754, and round to the nearest", "[ptx]") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    if ((bits & Float16Format::infinity) != Float16Format::infinity) {
      REQUIRE(Float16Format::nearest(Float16Format::value(bits)) == bits);
    }
    if ((bits & BFloat16Format::infinity) != BFloat16Format::infinity) {
      REQUIRE(BFloat16Format::nearest(BFloat16Format::value(bits)) == bits);
    }
  }
  REQUIRE(Float16Format::value(0x3C00) == 1);
  REQUIRE(Float16Format::value(0x0001) == 0x1p-24);
  REQUIRE(Float16Format::value(0xFBFF) == -65504);
  REQUIRE(BFloat16Format::value(0x3F80) == 1);
  REQUIRE(BFloat16Format::value(0x0001) == 0x1p-133);
  // Ties: to even.
  REQUIRE(Float16Format::nearest(1 + 0x1p-11) == 0x3C00);
  REQUIRE(Float16Format::nearest(1 + 0x3p-11) == 0x3C02);
  REQUIRE(Float16Format::nearest(65519.99) == 0x7BFF);
  REQUIRE(Float16Format::nearest(65520) == 0x7C00);
  REQUIRE(BFloat16Format::nearest(-1 - 0x1p-8) == 0xBF80);
}

}  // namespace
}  // namespace stagecraft::ptx::test
