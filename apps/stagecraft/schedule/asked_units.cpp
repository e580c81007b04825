#include "apps/stagecraft/schedule/asked_units.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "libsim/config/yaml_tree.hpp"
#include "libsim/schedule/unit_order.hpp"
#include "libsim/training/sharding/sharding_reader.hpp"

namespace stagecraft {

namespace {

constexpr int largest_number = std::numeric_limits<int>::max();

std::vector<std::int64_t> read_sizes(CommandLine const& line) {
  std::vector<std::int64_t> sizes;
  for (std::string const& text : list_items(line.value("units"))) {
    sizes.push_back(whole_number("--units", text, 1, largest_number));
  }
  if (sizes.size() > 1) return sizes;
  throw CommandLineError{"--units", "'" + line.value("units") + "'",
                         "the elements of the root's unit and of each block, like 128,528,528"};
}

/// The name that PyTorch has for a type.
std::string_view torch_name(UnitType type, UnitType automatic) {
  switch (type == UnitType::automatic ? automatic : type) {
    case UnitType::fp32:
      return "float32";
    case UnitType::fp16:
      return "float16";
    case UnitType::low:
      return "float8_e4m3fn";
    case UnitType::bf16:
    case UnitType::automatic:
      break;
  }
  return "bfloat16";
}

/// The ranks that share a unit.
int ranks_of_unit(CommandLine const& line, Sharding const& sharding) {
  int const ranks = line.whole_number("ranks", 1, largest_number);
  int const group = sharding.group == 0 ? ranks : sharding.group;
  int const kept_among = sharding.reshard_after_forward.ranks;
  if (ranks % group != 0) {
    throw CommandLineError{"--sharding", "group " + std::to_string(group),
                           "0, or a divisor of --ranks (" + std::to_string(ranks) + ")"};
  }
  if (kept_among != 0 && group % kept_among != 0) {
    throw CommandLineError{"--sharding", "reshard_after_forward " + std::to_string(kept_among),
                           "auto, true, false, or a divisor of the ranks that share a unit (" +
                               std::to_string(group) + ")"};
  }
  return group;
}

}  // namespace

Sharding read_units_sharding(CommandLine const& line) {
  Diagnostics diagnostics;
  std::optional<YamlNode> const tree =
      parse_yaml(line.value("sharding"), "--sharding", diagnostics);
  diagnostics.throw_if_any();
  Sharding const sharding = read_sharding(ConfigNode{*tree, "sharding", diagnostics});
  diagnostics.throw_if_any();
  if (!sharding.shares_parameters()) {
    throw CommandLineError{"--sharding", "'" + line.value("sharding") + "'",
                           "a kind whose units gather: " + names_of_kinds([](auto const& kind) {
                             return kind.shares == SharedState::parameters;
                           })};
  }
  return sharding;
}

std::string unit_events(CommandLine const& line) {
  using Kind = UnitAction::Kind;
  std::vector<std::int64_t> const sizes = read_sizes(line);
  Sharding const sharding = read_units_sharding(line);
  int const ranks = line.whole_number("ranks", 1, largest_number);
  int const group = ranks_of_unit(line, sharding);
  for (std::int64_t const size : sizes) {
    if (size % group == 0) continue;
    throw CommandLineError{
        "--units", "'" + std::to_string(size) + "'",
        "padded sizes: multiples of the ranks that share a unit (" + std::to_string(group) + ")"};
  }
  UnitPolicy policy = unit_policy(sharding);
  policy.recomputes = line.has("recompute");
  UnitType const stored =
      sharding.stored_dtype == UnitType::automatic ? UnitType::fp32 : sharding.stored_dtype;
  std::string const gathered =
      ":" + std::string{torch_name(sharding.parameter_dtype, UnitType::bf16)};
  std::string const reduced = ":" + std::string{torch_name(sharding.reduce_dtype, stored)};
  int const microbatches =
      line.has("microbatches") ? line.whole_number("microbatches", 1, largest_number) : 1;
  std::string text;
  auto const append = [&](std::string const& event) { text += (text.empty() ? "" : " ") + event; };
  for (UnitAction const& action : unit_actions(
           {.units = static_cast<int>(sizes.size()), .has_root = true}, policy, microbatches)) {
    std::int64_t const size =
        action.kind == Kind::microbatch || action.kind == Kind::backward_begins
            ? 0
            : sizes[static_cast<std::size_t>(action.number)];
    std::string const block = std::to_string(action.number - 1);
    switch (action.kind) {
      case Kind::microbatch:
        append("MB" + std::to_string(action.number));
        break;
      case Kind::backward_begins:
        append("BWD");
        break;
      case Kind::gather:
      case Kind::gather_partly:
        append("AG" + std::to_string(size) + gathered);
        break;
      case Kind::forward:
      case Kind::recompute:
        append("F" + block);
        break;
      case Kind::backward:
        append("B" + block);
        break;
      case Kind::reduce:
        append("RS" + std::to_string(size) + reduced);
        if (group < ranks) append("AR" + std::to_string(size / group) + reduced);
        break;
      case Kind::free:
        break;
    }
  }
  return text;
}

}  // namespace stagecraft
