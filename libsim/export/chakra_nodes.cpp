#include "libsim/export/chakra_nodes.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "libsim/export/job_groups.hpp"
#include "libsim/export/json_text.hpp"
#include "libsim/host/program_version.hpp"

namespace stagecraft {

namespace {

/// Fields of AttributeProto's value, by type.
enum class ValueType : std::uint8_t { int32 = 7, int64 = 9, uint64 = 13, boolean = 27, text = 29 };

constexpr int attribute_field = 10;

template <typename Value>
void add_attribute(ProtobufMessage& node, std::string_view name, ValueType type, Value value) {
  ProtobufMessage attribute;
  attribute.add(1, name);
  attribute.add(static_cast<int>(type), value);
  node.add(attribute_field, attribute);
}

constexpr std::array<std::pair<std::string_view, TraceColumn OpColumns::*>, 3> places{
    {{"microbatch", &OpColumns::microbatch},
     {"chunk", &OpColumns::chunk},
     {"layer", &OpColumns::layer}}};

}  // namespace

std::string chakra_header() {
  ProtobufMessage metadata;
  metadata.add(1, std::string_view{"0.0.4"});
  add_attribute(metadata, "made_by", ValueType::text,
                "stagecraft " + std::string{program_version()});
  return delimited(metadata);
}

std::int64_t message_tag(std::int64_t upper_stage,
                         bool is_gradient,
                         std::int64_t microbatch,
                         std::int64_t virtual_stages) {
  return 2 * (microbatch * virtual_stages + upper_stage) + (is_gradient ? 1 : 0);
}

ChakraNodes::ChakraNodes(RankTrace const& rank,
                         TraceNames const& names,
                         KnownNames const& known,
                         std::map<std::string, CollectiveOp> const& collectives)
    : rank_{rank}, names_{names}, known_{known} {
  for (std::string const& name : names.op) {
    auto const found = collectives.find(name);
    collective_.push_back(found == collectives.end() ? std::nullopt : std::optional{found->second});
    texts_.push_back(sound_utf8(name));
    constexpr std::string_view wait = ".wait";
    is_wait_.push_back(name.size() > wait.size() && name.ends_with(wait));
  }
  find_dependencies();
}

void ChakraNodes::write(std::int32_t number,
                        GroupNumbers& groups,
                        PipelineShape const& shape,
                        OutputFile& output) const {
  for (std::size_t row = 0; row < rank_.ops.rows(); ++row) {
    if (is_wait(row)) continue;
    output.write(delimited(node(row, number, groups, shape, type(row))));
    if (is_shift(row)) {
      output.write(delimited(node(row, number, groups, shape, NodeType::receive)));
    }
  }
}

ChakraNodes::NodeType ChakraNodes::type(std::size_t row) const {
  auto const stream = known_.stream(rank_.ops.stream[row]);
  if (stream == Stream::send_activation || stream == Stream::send_gradient) {
    return NodeType::send;
  }
  if (stream && kind_of(*stream) == StreamKind::messages) return NodeType::receive;
  if (is_shift(row)) return NodeType::send;
  return collective_[op(row)] ? NodeType::collective : NodeType::comp;
}

bool ChakraNodes::is_shift(std::size_t row) const {
  auto const& collective = collective_[op(row)];
  return collective && !collective_names(collective->kind).chakra;
}

std::vector<std::int64_t> ChakraNodes::nodes_before(std::size_t row) const {
  std::vector<std::int64_t> nodes = dependencies_[row];
  for (std::int64_t const before : dependencies_[row]) {
    auto const index = static_cast<std::size_t>(before);
    if (is_shift(index)) nodes.push_back(receiving_node(index));
  }
  return nodes;
}

/// Rows by start: what ends before a row starts comes before it.
void ChakraNodes::find_dependencies() {
  OpColumns const& ops = rank_.ops;
  dependencies_.resize(ops.rows());
  std::map<std::int64_t, std::int64_t> last_of_stream;
  // Rows of other streams that nothing of the compute stream has waited for yet: (end, row).
  std::set<std::pair<std::int64_t, std::int64_t>> pending;
  std::int64_t last_compute = -1;
  for (std::size_t row = 0; row < ops.rows(); ++row) {
    if (is_wait(row)) continue;
    auto const number = static_cast<std::int64_t>(row);
    std::vector<std::int64_t>& found = dependencies_[row];
    std::int64_t const stream = ops.stream[row];
    auto const before = last_of_stream.find(stream);
    if (before != last_of_stream.end()) found.push_back(before->second);
    last_of_stream[stream] = number;
    if (known_.stream(stream) == Stream::compute) {
      while (!pending.empty() && pending.begin()->first <= ops.start[row]) {
        found.push_back(pending.begin()->second);
        pending.erase(pending.begin());
      }
      last_compute = number;
    } else {
      pending.emplace(ops.start[row] + ops.duration[row], number);
      bool const is_over = last_compute >= 0 && end_of(last_compute) <= ops.start[row];
      if (is_over && type(row) != NodeType::receive) found.push_back(last_compute);
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
  }
}

std::int64_t ChakraNodes::end_of(std::int64_t row) const {
  auto const index = static_cast<std::size_t>(row);
  return rank_.ops.start[index] + rank_.ops.duration[index];
}

ProtobufMessage ChakraNodes::node(std::size_t row,
                                  std::int32_t number,
                                  GroupNumbers& groups,
                                  PipelineShape const& shape,
                                  NodeType kind) const {
  OpColumns const& ops = rank_.ops;
  bool const receives = is_shift(row) && kind == NodeType::receive;
  ProtobufMessage message;
  message.add(1, receives ? receiving_node(row) : static_cast<std::int64_t>(row));
  message.add(2, std::string_view{texts_[op(row)]});
  message.add(3, static_cast<std::int64_t>(kind));
  message.add(5, nodes_before(row));
  message.add(6, ops.start[row] / 1'000'000);
  message.add(7, (ops.duration[row] + 500'000) / 1'000'000);
  add_attribute(message, "is_cpu_op", ValueType::boolean, std::int64_t{0});
  add_attribute(message, "duration_ns", ValueType::int64, nanoseconds_of(ops.duration[row]));
  switch (kind) {
    case NodeType::comp:
      add_attribute(message, "num_ops", ValueType::int64, ops.flops[row]);
      add_attribute(message, "tensor_size", ValueType::uint64, ops.bytes[row]);
      break;
    case NodeType::collective: {
      CollectiveOp const& collective = *collective_[op(row)];
      std::int32_t const group = groups.number_of(collective.group, RankId{number});
      auto const size =
          static_cast<std::int64_t>(groups.members()[static_cast<std::size_t>(group)].size());
      // A trace has the whole tensor; ASTRA-sim takes what a rank puts into an all-gather.
      bool const gathers = collective.kind == OpKind::all_gather;
      add_attribute(message, "comm_type", ValueType::int64,
                    *collective_names(collective.kind).chakra);
      add_attribute(message, "comm_size", ValueType::int64, ops.bytes[row] / (gathers ? size : 1));
      add_attribute(message, "pg_name", ValueType::text,
                    std::to_string(group + first_chakra_group));
      break;
    }
    case NodeType::send:
    case NodeType::receive:
      if (is_shift(row)) {
        add_shift(message, row, number, groups, kind);
      } else {
        add_message(message, row, number, shape);
      }
      break;
  }
  add_attribute(message, "stage", ValueType::int32, std::int64_t{rank_.stage});
  add_attribute(message, "phase", ValueType::text,
                std::string_view{names_.phase[static_cast<std::size_t>(ops.phase[row])]});
  for (auto const& [name, column] : places) {
    if ((ops.*column)[row] >= 0) {
      add_attribute(message, name, ValueType::int32, (ops.*column)[row]);
    }
  }
  return message;
}

/// Peers and tag of the two messages of a shift. The tag is the row's, which is the same on all
/// ranks of a stage.
void ChakraNodes::add_shift(ProtobufMessage& message,
                            std::size_t row,
                            std::int32_t number,
                            GroupNumbers& groups,
                            NodeType kind) const {
  CollectiveOp const& shift = *collective_[op(row)];
  auto const group = static_cast<std::size_t>(groups.number_of(shift.group, RankId{number}));
  std::vector<RankId> const& members = groups.members()[group];
  auto const size = static_cast<std::int64_t>(members.size());
  auto const own = std::ranges::find(members, RankId{number}) - members.begin();
  bool const is_send = kind == NodeType::send;
  std::int64_t const by = is_send ? shift.shift : -shift.shift;
  std::int64_t const peer =
      members[static_cast<std::size_t>((own + by % size + size) % size)].value();
  constexpr std::int64_t shifts = 1 << 30;  // apart from the tags of messages between stages
  add_attribute(message, "comm_size", ValueType::int64, rank_.ops.bytes[row]);
  add_attribute(message, "comm_src", ValueType::int32, is_send ? std::int64_t{number} : peer);
  add_attribute(message, "comm_dst", ValueType::int32, is_send ? peer : std::int64_t{number});
  add_attribute(message, "comm_tag", ValueType::int32,
                shifts + static_cast<std::int64_t>(row) % shifts);
}

/// Peer and tag of a message.
void ChakraNodes::add_message(ProtobufMessage& message,
                              std::size_t row,
                              std::int32_t number,
                              PipelineShape const& shape) const {
  OpColumns const& ops = rank_.ops;
  auto const stream = *known_.stream(ops.stream[row]);
  bool const is_gradient = stream == Stream::send_gradient || stream == Stream::receive_gradient;
  bool const is_send = type(row) == NodeType::send;
  bool const goes_up = is_gradient != is_send;
  std::int64_t const here = shape.virtual_stage(ops.chunk[row], rank_.stage);
  std::int64_t const upper = goes_up ? here + 1 : here;
  std::int32_t const other = shape.stage_of(goes_up ? here + 1 : here - 1);
  std::int32_t const peer = number + (other - rank_.stage) * shape.ranks_per_stage;
  std::int64_t const tag = message_tag(upper, is_gradient, ops.microbatch[row],
                                       shape.placement.value().virtual_stages());
  add_attribute(message, "comm_size", ValueType::int64, ops.bytes[row]);
  add_attribute(message, "comm_src", ValueType::int32, std::int64_t{is_send ? number : peer});
  add_attribute(message, "comm_dst", ValueType::int32, std::int64_t{is_send ? peer : number});
  add_attribute(message, "comm_tag", ValueType::int32, tag & 0x7fffffff);
}

}  // namespace stagecraft
