#include "libsim/cost/measured_time.hpp"

#include <catch2/catch.hpp>

namespace stagecraft::measured_time_test {
namespace {

TEST_CASE("a measured product takes its FLOPs at the measured rate", "[cost]") {
  MeasuredDevice measured;
  measured.gemm.value[Precision::fp16][GemmForm::nt] = {
      .m = {100}, .n = {100}, .k = {100}, .rates = {{50e12}}};
  GemmShape shape{.batch = 1, .m = 1000, .n = 500, .k = 100};
  Op op;
  op.kind = OpKind::gemm;
  op.type = ElementType::f16;
  for (bool const transposed : {false, true}) {
    shape.transpose_b = transposed;
    op.attributes = GemmAttributes{.shape = shape, .output = ElementType::f16};
    auto const time = measured_time(measured, op);
    REQUIRE(time.has_value() == (form_of(shape) == GemmForm::nt));
    if (time) REQUIRE(time->value == Approx(2.0 * 1000 * 500 * 100 / 50e12));
  }
}

TEST_CASE("a measured kernel takes its latency and its bytes", "[cost]") {
  MeasuredDevice measured;
  measured.kernels.value[Precision::fp16][OpKind::add] = {.latency = {5e-6}, .bandwidth = {2e12}};
  Op op;
  op.kind = OpKind::add;
  op.type = ElementType::f16;
  op.traffic = Bytes{40'000'000};
  REQUIRE(measured_time(measured, op).value().value == Approx(5e-6 + 20e-6));
  op.kind = OpKind::gelu;
  REQUIRE_FALSE(measured_time(measured, op).has_value());
}

}  // namespace
}  // namespace stagecraft::measured_time_test
