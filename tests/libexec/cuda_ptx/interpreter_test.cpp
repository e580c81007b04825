// What the interpreter does, against what PTX ISA 9.0 says; and that it notices what it should.
#include <bit>
#include <catch2/catch.hpp>
#include <cstdint>

#include "tests/libexec/cuda_ptx/snippet.hpp"

namespace stagecraft::ptx::test {
namespace {

using Catch::Matchers::Contains;
using Words = std::vector<std::uint32_t>;

Words numbered(std::uint32_t count) {
  Words words(count);
  for (std::uint32_t i = 0; i < count; ++i) words[i] = i;
  return words;
}

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

TEST_CASE("instructions on words have the results that the ISA says", "[ptx]") {
  struct Case {
    char const* code;  ///< of %r1, %r2, %r3, to %r4
    std::uint32_t a, b, c, expected;
  };
  std::uint32_t const nan = 0x7FC00000;
  auto const one = GENERATE_COPY(values<Case>({
      {"shl.b32 %r4, %r1, %r2;", 1, 32, 0, 0},
      {"shr.s32 %r4, %r1, %r2;", 0x80000000, 40, 0, 0xFFFFFFFF},
      {"shr.u32 %r4, %r1, %r2;", 0x80000000, 31, 0, 1},
      {"div.s32 %r4, %r1, %r2;", 0xFFFFFFF9, 2, 0, 0xFFFFFFFD},  // -7 / 2 = -3
      {"rem.u32 %r4, %r1, %r2;", 0xFFFFFFF9, 16, 0, 9},
      {"mul.hi.u32 %r4, %r1, %r2;", 0x80000000, 6, 0, 3},
      {"mul.wide.s32 %rd1, %r1, %r2; shr.u64 %rd1, %rd1, 32; cvt.u32.u64 %r4, %rd1;", 0xFFFFFFFF, 2,
       0, 0xFFFFFFFF},
      {"mad.lo.s32 %r4, %r1, %r2, %r3;", 7, 0xFFFFFFFF, 3, 0xFFFFFFFC},
      {"add.cc.u32 %r5, %r1, %r2; addc.u32 %r4, %r3, 0;", 0xFFFFFFFF, 1, 5, 6},
      {"mad.lo.cc.u32 %r5, %r1, %r2, %r3; madc.hi.u32 %r4, %r1, %r2, 0;", 0x10000, 0x1FFFF, 0x10000,
       2},
      {"sub.cc.u32 %r5, %r1, %r2; subc.u32 %r4, %r3, 0;", 0, 1, 5, 4},
      {"bfi.b32 %r4, %r1, %r2, 8, 4;", 0xABC, 0xFFFFFFFF, 0, 0xFFFFFCFF},
      {"prmt.b32 %r4, %r1, %r2, 0x7410;", 0x33221100, 0x77665544, 0, 0x77441100},
      {"prmt.b32 %r4, %r1, %r2, 0xF8;", 0x33221100, 0x80665544, 0, 0x0000FF00},
      {"clz.b32 %r4, %r1;", 0x00010000, 0, 0, 15},
      {"max.f32 %r4, %r1, %r2;", nan, bits_of(-3), 0, bits_of(-3)},
      {"min.f32 %r4, %r1, %r2;", 0, 0x80000000, 0, 0x80000000},
      {"add.rz.f32 %r4, %r1, %r2;", bits_of(1), bits_of(-0x1p-30F), 0, bits_of(1 - 0x1p-24F)},
      {"copysign.f32 %r4, %r1, %r2;", bits_of(-1), bits_of(3), 0, bits_of(-3)},
      {"rcp.approx.ftz.f32 %r4, %r1;", bits_of(-4), 0, 0, bits_of(-0.25F)},
      {"fma.rn.f32 %r4, %r1, %r2, %r3;", bits_of(1 + 0x1p-12F), bits_of(1 + 0x1p-12F), bits_of(-1),
       bits_of(0x1p-11F + 0x1p-24F)},
      {"fma.rm.f32 %r4, %r1, %r2, %r3;", bits_of(1), bits_of(-0x1p-30F), bits_of(1),
       bits_of(1 - 0x1p-24F)},
      {"ex2.approx.ftz.f32 %r4, %r1;", bits_of(-2.5F), 0, 0, 0x3E3504F3},
      {"cvt.sat.f32.f32 %r4, %r1;", bits_of(7), 0, 0, bits_of(1)},
      {"cvt.sat.f32.f32 %r4, %r1;", nan, 0, 0, 0},
      {"cvt.rni.s32.f32 %r4, %r1;", bits_of(-2.5F), 0, 0, 0xFFFFFFFE},
      {"cvt.rzi.u32.f32 %r4, %r1;", bits_of(-2.5F), 0, 0, 0},
      {"cvt.rzi.s32.f32 %r4, %r1;", bits_of(3e9F), 0, 0, 0x7FFFFFFF},
      {"cvt.u16.u32 %rs1, %r1; cvt.s32.s16 %r4, %rs1;", 0x1FFFF, 0, 0, 0xFFFFFFFF},
      {"mov.b32 {%rs1, %rs2}, %r1; mov.b32 %r4, {%rs2, %rs1};", 0x12345678, 0, 0, 0x56781234},
      {"setp.lt.f32 %p1, %r1, %r2; selp.b32 %r4, 1, 0, %p1;", nan, 0, 0, 0},
      {"setp.ltu.f32 %p1, %r1, %r2; selp.b32 %r4, 1, 0, %p1;", nan, 0, 0, 1},
      {"setp.lt.s32 %p1, %r1, %r2; selp.b32 %r4, 1, 0, %p1;", 0xFFFFFFFF, 0, 0, 1},
      {"setp.lt.u32 %p1, %r1, %r2; selp.b32 %r4, 1, 0, %p1;", 0xFFFFFFFF, 0, 0, 0},
  }));
  CAPTURE(one.code);
  Words const out = run_snippet(kernel_of("ld.global.u32 %r1, [%in]; ld.global.u32 %r2, [%in+4];"
                                          "ld.global.u32 %r3, [%in+8];" +
                                          std::string{one.code} + "st.global.u32 [%out], %r4;"),
                                {one.a, one.b, one.c}, 1, 1);
  REQUIRE(out[0] == one.expected);
}

TEST_CASE("lanes that a loop parts meet behind it, and exchange values there", "[ptx]") {
  // Lane l goes around l + 1 times.
  Words const out = run_snippet(kernel_of(R"(
  mov.u32 %r1, 0;
LOOP:
  add.s32 %r1, %r1, 1;
  setp.le.u32 %p1, %r1, %tid;
  @%p1 bra LOOP;
  mov.u32 %r2, 1;
  mov.u32 %r3, 31;
  mov.u32 %r4, -1;
  shfl.sync.bfly.b32 %r5|%p2, %r1, %r2, %r3, %r4;
  st.global.u32 [%out4], %r5;)"),
                                {0}, 32);
  for (std::uint32_t lane = 0; lane < 32; ++lane) REQUIRE(out[lane] == (lane ^ 1U) + 1);
}

TEST_CASE("shuffles stay in their segment", "[ptx]") {
  struct Case {
    char const* kind;
    std::uint32_t by, clamp, lane, expected;
  };
  // Segments of 8 lanes: a mask of 0x18 in bits 8 to 12.
  auto const one = GENERATE(values<Case>({{"down", 3, 0x181F, 12, 15},
                                          {"down", 3, 0x181F, 13, 13},
                                          {"up", 3, 0x1800, 12, 9},
                                          {"up", 3, 0x1800, 10, 10},
                                          {"idx", 9, 0x181F, 20, 17},
                                          {"bfly", 8, 0x181F, 3, 3},
                                          {"bfly", 4, 0x181F, 3, 7}}));
  CAPTURE(one.kind, one.by, one.lane);
  Words const out = run_snippet(
      kernel_of("shfl.sync." + std::string{one.kind} + ".b32 %r1, %tid, " + std::to_string(one.by) +
                ", " + std::to_string(one.clamp) + ", -1; st.global.u32 [%out4], %r1;"),
      {0}, 32);
  REQUIRE(out[one.lane] == one.expected);
}

TEST_CASE("lanes that wait for others in vain are a fault", "[ptx]") {
  std::string const body = GENERATE(
      // The two sides of a branch shuffle in different places.
      R"(setp.lt.u32 %p1, %tid, 16;
         @%p1 bra LOW;
         shfl.sync.idx.b32 %r1, %tid, 0, 31, -1;
         bra END;
       LOW:
         shfl.sync.idx.b32 %r1, %tid, 0, 31, -1;
       END:)",
      // Some have left.
      R"(setp.lt.u32 %p1, %tid, 16;
         @%p1 ret;
         bar.warp.sync -1;)");
  REQUIRE_THROWS_AS(run_snippet(kernel_of(body), {0}, 1), Fault);
}

TEST_CASE("lanes come together in a barrier of their warp", "[ptx]") {
  Words const out = run_snippet(kernel_of(R"(
  setp.lt.u32 %p1, %tid, 16;
  @%p1 bra SKIP;
  mov.u32 %r1, 7;
SKIP:
  bar.warp.sync -1;
  st.global.u32 [%out4], %tid;)"),
                                {0}, 32);
  REQUIRE(out == numbered(32));
}

TEST_CASE("a barrier that a part of a block comes to is a fault", "[ptx]") {
  unsigned const bound = GENERATE(16U, 32U);  // inside of a warp, and between warps
  REQUIRE_THROWS_WITH(
      run_snippet(kernel_of("setp.ge.u32 %p1, %tid, " + std::to_string(bound) +
                            "; @%p1 bra END; bar.sync 0; END:"),
                  {0}, 1, 64),
      Contains("executed by 16 lanes of a warp, not 32") || Contains("1 warps wait at a barrier"));
}

TEST_CASE("accesses that a device stops for are faults", "[ptx]") {
  struct Case {
    char const* code;
    char const* message;
  };
  auto const one = GENERATE(values<Case>(
      {{"ld.global.v2.u32 {%r1, %r2}, [%in+4];", "8 bytes at misaligned address"},
       {"ld.global.u32 %r1, [%in+2];", "4 bytes at misaligned address"},
       {"ld.global.u32 %r1, [%in+64];", "global address"},
       {"st.global.u32 [%in+-4], %r1;", "global address"},
       {"mov.u64 %rd1, 0; ld.global.u32 %r1, [%rd1];", "are in no allocation"},
       {"mov.u32 %r2, tile; ld.shared.u32 %r1, [%r2+64];", "are outside of its 64 bytes"},
       {"mov.u64 %rd1, tile; cvta.shared.u64 %rd2, %rd1; ld.u32 %r1, [%rd2+64];",
        "are outside of its 64 bytes"},
       {"mov.u64 %rd1, tile; cvta.shared.u64 %rd2, %rd1; cvta.to.global.u64 %rd3, %rd2;",
        "not of the space"}}));
  CAPTURE(one.code);
  REQUIRE_THROWS_WITH(
      run_snippet(kernel_of(one.code, ".shared .align 16 .b8 tile[64];"), Words(16), 1, 1),
      Contains(one.message));
}

TEST_CASE("warps that share memory without a barrier are a fault", "[ptx]") {
  std::string const barrier = GENERATE("", "bar.sync 0;");
  std::string const text = kernel_of(R"(
  mov.u32 %r1, tile;
  shl.b32 %r2, %tid, 2;
  add.s32 %r3, %r1, %r2;
  st.shared.u32 [%r3], %tid;)" + barrier +
                                         R"(
  sub.s32 %r4, 252, %r2;
  add.s32 %r5, %r1, %r4;
  ld.shared.u32 %r6, [%r5];
  st.global.u32 [%out4], %r6;)",
                                     ".extern .shared .align 16 .b8 tile[];");
  if (barrier.empty()) {
    REQUIRE_THROWS_WITH(run_snippet(text, {0}, 64, 64, 256), Contains("a race"));
  } else {
    Words const out = run_snippet(text, {0}, 64, 64, 256);
    for (std::uint32_t i = 0; i < 64; ++i) REQUIRE(out[i] == 63 - i);
  }
}

TEST_CASE("functions are called with parameters of their own", "[ptx]") {
  Words const out = run_snippet(kernel_of(R"(
  {
  .param .b32 param0;
  st.param.b32 [param0+0], %tid;
  .param .b32 retval0;
  call.uni (retval0), twice, (param0);
  ld.param.b32 %r1, [retval0+0];
  }
  st.global.u32 [%out4], %r1;)",
                                          R"(
.func (.param .b32 result) twice(.param .b32 number)
{
  .reg .b32 %r<3>;
  .reg .pred %p<2>;
  ld.param.u32 %r1, [number];
  add.s32 %r2, %r1, %r1;
  st.param.b32 [result+0], %r2;
  setp.lt.u32 %p1, %r1, 8;
  @%p1 ret;
  add.s32 %r2, %r2, 100;
  st.param.b32 [result+0], %r2;
  ret;
})"),
                                {0}, 32);
  REQUIRE(out[7] == 14);
  REQUIRE(out[8] == 116);
}

TEST_CASE("what the interpreter does not know is an error that names it", "[ptx]") {
  struct Case {
    char const* code;
    char const* message;
  };
  auto const one = GENERATE(
      values<Case>({{"tanh.approx.f32 %f1, %f2;", "tanh.approx.f32: an instruction that this"},
                    {"add.ftz.f32 %f1, %f2, %f3;", "add.ftz.f32: an unknown modifier .ftz"},
                    {"ld.global.volatile.u32 %r1, [%in];", "an unknown modifier .volatile"},
                    {"add.s32 %r1, %rd1, %r2;", "%rd1 has 64 bits, not 32"},
                    {"cvt.u32.f32 %r1, %f1;", "cvt.u32.f32: no rounding"},
                    {"bra NOWHERE;", "no label NOWHERE"}}));
  CAPTURE(one.code);
  REQUIRE_THROWS_WITH(run_snippet(kernel_of(one.code), {0}, 1), Contains(one.message));
}

}  // namespace
}  // namespace stagecraft::ptx::test
