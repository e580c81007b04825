#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "libexec/kernels/cuda/attention/cudnn_choice.hpp"
#include "tests/libexec/cuda/agreement.hpp"

namespace stagecraft::test::cudnn_attention_test {
namespace {

using Sums = CudnnChoice::Sums;

/// What a test varies.
struct Variant {
  std::int64_t s, heads, kv_heads, d;
  std::int64_t window = 0;
  bool sinks = false;
  double dropout = 0;
  double softcap = 0;
};

constexpr std::int64_t b = 2;

/// q, k, v inside of tokens [s, b, (heads + 2 kv heads) d], as a layer has them.
DeviceCase forward_of(ElementType type, Variant const& v) {
  std::int64_t const width = (v.heads + 2 * v.kv_heads) * v.d;
  auto const part = [&](std::int64_t count, std::int64_t first) {
    return Use{.tensor = 0,
               .shape = {v.s, b, count, v.d},
               .strides = {b * width, width, v.d, 1},
               .offset = first * v.d};
  };
  ElementType const sums = type == ElementType::f64 ? type : ElementType::f32;
  DeviceCase forward{
      .kind = OpKind::flash_attention,
      .tensors = {TestTensor::random(type, {v.s, b, width}, 1),
                  TestTensor{type, {v.s, b, v.heads * v.d}}, TestTensor{sums, {b, v.heads, v.s}},
                  TestTensor::random(type, {v.s, b, v.heads * v.d}, 2),
                  TestTensor{type, {v.s, b, width}}, TestTensor::random(type, {v.heads}, 3)},
      .reads = {part(v.heads, 0), part(v.kv_heads, v.heads),
                part(v.kv_heads, v.heads + v.kv_heads)},
      .writes = {{1}, {2}},
      .attributes = FlashAttributes{.scale = 0.4,
                                    .dropout = {.site = DropoutSite::attention, .rate = v.dropout},
                                    .window = v.window,
                                    .softcap = v.softcap},
      .draw = some_draw(DropoutSite::attention)};
  if (v.sinks) forward.reads.push_back({5});
  return forward;
}

/// `after`: the tensors behind forward. Gradients are inside of one tensor, as q, k and v are.
DeviceCase backward_of(DeviceCase const& forward, std::vector<TestTensor> const& after) {
  DeviceCase backward = forward;
  backward.kind = OpKind::flash_attention_backward;
  backward.tensors = after;
  backward.reads = {{3}, forward.reads[0], forward.reads[1], forward.reads[2], {1}, {2}};
  backward.writes = {forward.reads[0], forward.reads[1], forward.reads[2]};
  for (Use& gradient : backward.writes) gradient.tensor = 4;
  return backward;
}

RankShare share_of(ElementType type) { return whole(small_model(precision_of(type))); }

/// A device whose attention is cuDNN's, and what was said against it.
struct CudnnDevice {
  std::vector<std::string> said;
  Device device;

  CudnnDevice(ElementType type, Sums sums)
      : device{share_of(type), nullptr,
               std::make_shared<CudnnChoice>(
                   sums, "", [this](std::string const& reason) { said.push_back(reason); })} {}

  /// False, with a warning, on a machine without cuDNN and in a build without its headers.
  bool has_cudnn() const {
    if (said.empty()) return true;
    WARN(said.front());
    return false;
  }
};

/// The same values in another type.
std::vector<TestTensor> in_type(ElementType type, std::vector<TestTensor> const& tensors) {
  std::vector<TestTensor> all;
  for (TestTensor const& tensor : tensors) {
    all.emplace_back(type, tensor.operand().shape);
    for (std::int64_t i = 0; i < tensor.size(); ++i) all.back().set(i, tensor[i]);
  }
  return all;
}

/// The call of a CPU in fp64 on the same values.
std::vector<TestTensor> by_double(DeviceCase what) {
  what.tensors = in_type(ElementType::f64, what.tensors);
  return on_cpu(share_of(ElementType::f64), what);
}

void require_close(std::vector<TestTensor> const& got,
                   std::vector<TestTensor> const& wanted,
                   std::vector<std::size_t> const& which) {
  for (std::size_t const i : which) {
    CAPTURE(i);
    REQUIRE(relative_error(got[i], wanted[i]) <= device_tolerance(got[i].type()));
  }
}

/// cuDNN against this library's kernel and against fp64. Sums [b, heads, s] are of exponentials of
/// scores whose operands have 16 bits, so that 1e-3 is what fp32 sums of them keep. A graph takes
/// two seconds to build, so that both orders of a backward follow one forward.
void require_agreement_of(ElementType type,
                          Variant const& variant,
                          std::vector<Sums> const& orders = {Sums::any_order}) {
  CAPTURE(name_of(type), variant.s, variant.heads, variant.kv_heads, variant.d, variant.window,
          variant.sinks);
  CudnnDevice cudnn{type, Sums::any_order};
  if (!cudnn.has_cudnn()) return;
  DeviceCase const forward = forward_of(type, variant);
  std::vector<TestTensor> const got = cudnn.device.run(forward);
  std::vector<TestTensor> const own = on_device(share_of(type), forward);
  std::vector<TestTensor> const exact = by_double(forward);
  REQUIRE(cudnn.said.empty());
  require_close(got, own, {1});
  require_close(got, exact, {1});
  REQUIRE(relative_error(got[2], own[2]) <= 1e-3);
  REQUIRE(relative_error(got[2], exact[2]) <= 1e-3);

  DeviceCase const backward = backward_of(forward, got);
  std::vector<TestTensor> const own_gradients = on_device(share_of(type), backward);
  std::vector<TestTensor> const exact_gradients = by_double(backward);
  for (Sums const sums : orders) {
    CAPTURE(sums == Sums::in_order);
    CudnnDevice with_order{type, sums};
    std::vector<TestTensor> const gradients = with_order.device.run(backward);
    REQUIRE(with_order.said.empty());
    require_close(gradients, own_gradients, {4});
    require_close(gradients, exact_gradients, {4});
  }
}

TEST_CASE("attention by cuDNN is that of the own kernel and of fp64", "[cuda]") {
  Variant const variant =
      GENERATE(Variant{64, 1, 1, 64}, Variant{37, 2, 1, 24}, Variant{130, 4, 2, 128},
               Variant{300, 8, 1, 64}, Variant{150, 2, 2, 192}, Variant{80, 2, 1, 256});
  require_agreement_of(ElementType::bf16, variant, {Sums::any_order, Sums::in_order});
}

TEST_CASE("attention by cuDNN in fp16 is that of the own kernel and of fp64", "[cuda]") {
  Variant const variant = GENERATE(Variant{37, 2, 1, 24}, Variant{130, 4, 2, 128});
  require_agreement_of(ElementType::f16, variant);
}

TEST_CASE("windows by cuDNN are those of the own kernel and of fp64", "[cuda]") {
  std::int64_t const window = GENERATE(1, 70, 200);
  require_agreement_of(ElementType::bf16, {150, 4, 2, 64, window});
}

TEST_CASE("sinks by cuDNN are those of the own kernel and of fp64", "[cuda]") {
  require_agreement_of(ElementType::bf16, {150, 4, 2, 64, 0, true});
  require_agreement_of(ElementType::f16, {150, 4, 2, 64, 40, true});
}

TEST_CASE("forward by cuDNN, and its backward in order, have the same bits every time", "[cuda]") {
  CudnnDevice cudnn{ElementType::bf16, Sums::in_order};
  if (!cudnn.has_cudnn()) return;
  DeviceCase const forward = forward_of(ElementType::bf16, {260, 8, 2, 128});
  std::vector<TestTensor> const once = cudnn.device.run(forward);
  std::vector<TestTensor> const gradients = cudnn.device.run(backward_of(forward, once));
  for (int repeat = 0; repeat < 5; ++repeat) {
    std::vector<TestTensor> const again = cudnn.device.run(forward);
    REQUIRE(again[1].same_bits(once[1]));
    REQUIRE(again[2].same_bits(once[2]));
    REQUIRE(cudnn.device.run(backward_of(forward, again))[4].same_bits(gradients[4]));
  }
}

TEST_CASE("what cuDNN is not given has the bits of the own kernel, and is said", "[cuda]") {
  auto const [type, variant, reason] = GENERATE(
      std::tuple{ElementType::f32, Variant{40, 2, 1, 64}, "16 bits"},
      std::tuple{ElementType::bf16, Variant{40, 2, 1, 64, 0, false, 0.25}, "masks of dropout"},
      std::tuple{ElementType::bf16, Variant{40, 2, 1, 64, 0, false, 0, 0.9}, "a cap"},
      std::tuple{ElementType::f16, Variant{40, 2, 1, 20}, "multiples of 8"});
  CudnnDevice cudnn{type, Sums::any_order};
  if (!cudnn.has_cudnn()) return;
  DeviceCase const forward = forward_of(type, variant);
  std::vector<TestTensor> const own = on_device(share_of(type), forward);
  std::vector<TestTensor> const got = cudnn.device.run(forward);
  for (std::size_t const i : {1, 2}) REQUIRE(got[i].same_bits(own[i]));
  DeviceCase const backward = backward_of(forward, own);
  REQUIRE(cudnn.device.run(backward)[4].same_bits(on_device(share_of(type), backward)[4]));
  REQUIRE(cudnn.said.size() == 1);
  REQUIRE_THAT(cudnn.said[0], Catch::Contains(reason));
}

TEST_CASE("a backward for which the workspace is too small is the own kernel's", "[cuda]") {
  CudnnDevice cudnn{ElementType::bf16, Sums::in_order};
  if (!cudnn.has_cudnn()) return;
  // The gradients of its scores alone take 2 b heads s^2 = 64 MiB.
  DeviceCase const forward = forward_of(ElementType::bf16, {2048, 4, 4, 8});
  std::vector<TestTensor> const after = on_device(share_of(ElementType::bf16), forward);
  DeviceCase const backward = backward_of(forward, after);
  std::vector<TestTensor> const own = on_device(share_of(ElementType::bf16), backward);
  REQUIRE(cudnn.device.run(backward)[4].same_bits(own[4]));
  REQUIRE(cudnn.said.size() == 1);
  REQUIRE_THAT(cudnn.said[0], Catch::Contains("bytes of workspace"));
}

}  // namespace
}  // namespace stagecraft::test::cudnn_attention_test
