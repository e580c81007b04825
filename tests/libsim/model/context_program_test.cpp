#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/modules/blocks.hpp"
#include "libsim/program/context_parallel.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft::context_program_test {
namespace {

/// A layer of Llama 3 8B in bf16.
BlockShape llama3_8b(std::int64_t sequence, ContextLevel const& exchange) {
  ModelConfig model = gpt(1, 4096, 32, sequence, 128256);
  model.kv_heads = 8;
  model.ffn_hidden = 14336;
  model.precision = Precision::bf16;
  model.activation = Activation::swiglu;
  model.norm = Norm::rmsnorm;
  model.positions = Positions::rotary;
  model.attention = Attention::flash;
  model.biases = false;
  model.dropout = 0;
  return {.model = model, .exchange = exchange};
}

/// The same on ranks that attend to each other's keys.
BlockShape with_keys(std::int64_t sequence, int ranks, bool gathers) {
  BlockShape shape = llama3_8b(sequence, {});
  shape.keys = {ranks, GroupId{1}};
  shape.gathers_keys = gathers;
  return shape;
}

/// What a rank sends to the 7 others of 8, in one pass.
std::int64_t sent_to_others(std::vector<Op> const& ops) {
  std::int64_t sum = 0;
  for (Op const& op : ops) {
    if (op.kind == OpKind::all_to_all) sum += op.payload.count();
  }
  return sum / 8 * 7;
}

std::int64_t flash_flops(std::vector<Op> const& ops) {
  std::int64_t sum = 0;
  for (Op const& op : ops) {
    bool const counts =
        op.kind == OpKind::flash_attention || op.kind == OpKind::flash_attention_backward;
    if (counts) sum += op.flops;
  }
  return sum;
}

/// The bytes of a tensor that is kept from forward to backward; 0 if it is not.
std::int64_t kept(BlockProgram const& block, std::string_view name) {
  for (BufferLife const& life : block.lives) {
    Tensor const& tensor = block.tensor(life.buffer);
    if (life.is_saved() && to_string(tensor.name) == name) return tensor.bytes().count();
  }
  return 0;
}

constexpr std::int64_t S = 131072, C = 8, s = S / C, h = 4096, k = 1024, a = 32;
constexpr ContextLevel by_heads{C, GroupId{1}};

TEST_CASE("Ulysses sends queries, keys, values and context once in each pass", "[model]") {
  // 4 (C-1)/C s b (h + k) bytes a pass: 293,601,280 for Llama 3 8B, S = 131072, C = 8.
  BlockProgram const block = build_layers(llama3_8b(S, by_heads), 1, {});
  REQUIRE(sent_to_others(block.forward) == 293'601'280);
  REQUIRE(sent_to_others(block.backward) == 293'601'280);
  // 2 b h S^2 / C FLOPs of the causal half forward, 2.5 times as many backward.
  REQUIRE(static_cast<double>(flash_flops(block.forward)) ==
          Approx(2.0 * h * S * S / C).epsilon(1e-4));
  REQUIRE(static_cast<double>(flash_flops(block.backward)) ==
          Approx(5.0 * h * S * S / C).epsilon(1e-4));
}

TEST_CASE("Ulysses keeps what core attention reads and its result before the exchange", "[model]") {
  BlockProgram const block = build_layers(llama3_8b(S, by_heads), 1, {});
  REQUIRE(kept(block, "core_attention.q_of_heads") == 134'217'728);
  REQUIRE(kept(block, "core_attention.k_of_heads") == 33'554'432);
  REQUIRE(kept(block, "core_attention.v_of_heads") == 33'554'432);
  REQUIRE(kept(block, "core_attention.context") == 134'217'728);
  REQUIRE(kept(block, "core_attention.log_sum_exp") == 2'097'152);
  REQUIRE(kept(block, "attention.projection.input") == 134'217'728);
  // Beside a layer with as many tokens on one rank: the result twice; rows of qkv, which v is part
  // of there, are not kept, but v itself is.
  BlockProgram const alone = build_layers(llama3_8b(s, {}), 1, {});
  std::int64_t const qkv = 2 * s * (h + 2 * k);
  REQUIRE((saved_bytes(block) - saved_bytes(alone)).count() == 2 * s * h - qkv + 2 * s * k);
}

TEST_CASE("recomputed core attention exchanges again, and keeps no exchanged tensor", "[model]") {
  RecomputePolicy const policy{.granularity = RecomputeGranularity::selective,
                               .modules = {"core_attention"}};
  BlockProgram const block = build_layers(llama3_8b(S, by_heads), 1, policy);
  // Queries, keys and values of the forward a second time; the context's way back too, as the
  // region ends behind it.
  REQUIRE(sent_to_others(block.backward) == 2 * 293'601'280);
  REQUIRE(kept(block, "core_attention.q_of_heads") == 0);
  REQUIRE(kept(block, "core_attention.context") == 0);
  REQUIRE(kept(block, "core_attention.rotated_q") == 2 * s * h);
  REQUIRE(kept(block, "attention.projection.input") == 2 * s * h);
}

/// Bytes of ring shifts in one pass, and of the largest.
struct Shifts {
  std::int64_t count = 0, sum = 0, largest = 0;
};
Shifts shifts_of(std::vector<Op> const& ops) {
  Shifts shifts;
  for (Op const& op : ops) {
    if (op.kind != OpKind::ring_shift) continue;
    ++shifts.count;
    shifts.sum += op.payload.count();
    shifts.largest = std::max(shifts.largest, op.payload.count());
  }
  return shifts;
}

/// The most that tensors of these names take together in a pass, of those that it makes.
std::int64_t most_of(BlockProgram const& block, Pass pass, std::set<std::string> const& names) {
  std::int64_t most = 0;
  for (std::int32_t op = 0; op < std::ssize(block.ops(pass)); ++op) {
    std::int64_t sum = 0;
    for (BufferLife const& life : block.lives) {
      bool const is_alive = life.allocate_pass == pass && life.allocate <= op &&
                            (life.release_pass != pass || life.release >= op);
      Tensor const& tensor = block.tensor(life.buffer);
      if (is_alive && names.contains(to_string(tensor.name))) sum += tensor.bytes().count();
    }
    most = std::max(most, sum);
  }
  return most;
}

// The numbers of a layer of Llama 3 8B with S = 131072, C = 8, t = b = 1 by hand: s = 16384 rows,
// K and V of 1024 elements, 16 bits.
TEST_CASE("a ring sends keys and values on, and their gradients back", "[model]") {
  BlockProgram const block = build_layers(with_keys(S, C, false), 1, {});
  Shifts const forward = shifts_of(block.forward);
  REQUIRE(forward.count == 7);
  REQUIRE(forward.largest == 67'108'864);
  REQUIRE(forward.sum == 469'762'048);
  Shifts const backward = shifts_of(block.backward);
  REQUIRE(backward.count == 8);
  REQUIRE(backward.largest == 2 * 67'108'864);
  REQUIRE(backward.sum == 939'524'096);
  // 1.76e13 FLOPs in 8 equal steps, 2.5 times as many backward.
  REQUIRE(flash_flops(block.forward) == 2 * h * S / C * S);
  REQUIRE(flash_flops(block.backward) == 5 * h * S / C * S);
}

TEST_CASE("a ring keeps what arrived last, and works on the whole sequence's keys", "[model]") {
  BlockProgram const block = build_layers(with_keys(S, C, false), 1, {});
  REQUIRE(kept(block, "core_attention.rotated_q") == 134'217'728);
  REQUIRE(kept(block, "core_attention.ring_kv") == 67'108'864);
  REQUIRE(kept(block, "attention.projection.input") == 134'217'728);
  REQUIRE(kept(block, "core_attention.log_sum_exp") == 2'097'152);
  REQUIRE(most_of(block, Pass::forward, {"core_attention.ring_kv"}) == 536'870'912);
  REQUIRE(most_of(block, Pass::forward, {"core_attention.part_of_context"}) == 1'073'741'824);
  REQUIRE(most_of(block, Pass::backward, {"core_attention.ring_buffer"}) == 4 * 67'108'864);
  // As a layer with as many tokens on one rank keeps, but for the joined copy of keys and values in
  // place of rotated keys and of qkv, of which the values are a part.
  BlockProgram const alone = build_layers(llama3_8b(s, {}), 1, {});
  REQUIRE((saved_bytes(block) - saved_bytes(alone)).count() ==
          2 * s * 2 * k - 2 * s * k - 2 * s * (h + 2 * k));
}

TEST_CASE("the last rank of consecutive rows has 2 c - 1 half steps, and the same messages",
          "[model]") {
  BlockShape shape = with_keys(S, C, false);
  BlockProgram const even = build_layers(shape, 1, {});
  shape.contiguous_keys = true;
  BlockProgram const block = build_layers(shape, 1, {});
  // Its first step is the causal half of s x s, and each of the 7 others all of it: 15 halves, of
  // 2 b h s^2 = 2.2e12 FLOPs forward and 2.5 times as many backward.
  REQUIRE(flash_flops(block.forward) == 15 * 2'199'023'255'552);
  REQUIRE(flash_flops(block.backward) == 15 * 5'497'558'138'880);
  for (Pass const pass : {Pass::forward, Pass::backward}) {
    REQUIRE(block.ops(pass).size() == even.ops(pass).size());
    REQUIRE(shifts_of(block.ops(pass)).sum == shifts_of(even.ops(pass)).sum);
  }
  REQUIRE(saved_bytes(block) == saved_bytes(even));
}

/// Pairs of a query and a key that it sees, in each step of a ring of 4 ranks with 6 rows each.
std::vector<std::int64_t> pairs_of_steps(AttentionPart::Kind kind, int rank) {
  bool const is_zigzag = kind == AttentionPart::Kind::ring_step;
  std::vector<std::int64_t> pairs;
  for (int step = 0; step < 4; ++step) {
    AttendedRows const rows = attended_rows({.kind = kind, .index = step},
                                            {.rank = rank, .ranks = 4, .zigzag = is_zigzag}, 6, 6);
    std::int64_t& sum = pairs.emplace_back();
    for (std::int64_t query = 0; query < 6; ++query) sum += rows.seen_by(query);
  }
  return pairs;
}

TEST_CASE("a rank of consecutive rows has as many steps as there are ranks up to it", "[model]") {
  // 6 x 6 pairs, 6 x 7 / 2 of them on and below the diagonal.
  using Pairs = std::vector<std::int64_t>;
  AttentionPart::Kind const contiguous = AttentionPart::Kind::contiguous_step;
  REQUIRE(pairs_of_steps(contiguous, 0) == Pairs{21, 0, 0, 0});
  REQUIRE(pairs_of_steps(contiguous, 1) == Pairs{21, 36, 0, 0});
  REQUIRE(pairs_of_steps(contiguous, 2) == Pairs{21, 36, 36, 0});
  REQUIRE(pairs_of_steps(contiguous, 3) == Pairs{21, 36, 36, 36});
  // With two chunks each, 3 x 6 or 6 x 3 of them in every other step, on every rank. Both ways are
  // 24 x 25 / 2 pairs in all.
  for (int rank = 0; rank < 4; ++rank) {
    REQUIRE(pairs_of_steps(AttentionPart::Kind::ring_step, rank) == Pairs{21, 18, 18, 18});
  }
}

TEST_CASE("gathered keys and values are copied in order, and scattered again", "[model]") {
  BlockProgram const block = build_layers(with_keys(S, C, true), 1, {});
  auto const sent = [](std::vector<Op> const& ops) {
    std::int64_t sum = 0;
    for (Op const& op : ops) {
      bool const counts = op.group == GroupId{1} &&
                          (op.kind == OpKind::all_gather || op.kind == OpKind::reduce_scatter);
      if (counts) sum += op.payload.count() / C * (C - 1);
    }
    return sum;
  };
  REQUIRE(sent(block.forward) == 469'762'048);
  REQUIRE(sent(block.backward) == 939'524'096);
  REQUIRE(flash_flops(block.forward) == 2 * h * S / C * S);
  REQUIRE(flash_flops(block.backward) == 5 * h * S / C * S);
  // While values are put in order: keys in order, values as gathered and in order.
  std::set<std::string> names{"core_attention.gathered", "core_attention.all_k",
                              "core_attention.all_v"};
  REQUIRE(most_of(block, Pass::forward, names) == 805'306'368);
  names.insert({"core_attention.all_k_gradient", "core_attention.all_v_gradient"});
  REQUIRE(most_of(block, Pass::backward, names) == 1'342'177'280);
}

TEST_CASE("all else of a layer has 1/c of the rows", "[model]") {
  BlockProgram const block = build_layers(llama3_8b(S, by_heads), 1, {});
  REQUIRE(block.tensor(block.input).bytes() == Bytes{2 * s * h});
  auto const products = [](BlockProgram const& of) {
    return flops_of(of, [](Op const& op) { return op.kind == OpKind::gemm; });
  };
  REQUIRE(products(block) == products(build_layers(llama3_8b(s, {}), 1, {})));
  REQUIRE(products(build_head(llama3_8b(S, by_heads), HeadWeight::own)) ==
          products(build_head(llama3_8b(s, {}), HeadWeight::own)));
}

}  // namespace
}  // namespace stagecraft::context_program_test
