#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libsim/export/job_groups.hpp"
#include "libsim/export/protobuf_writer.hpp"
#include "libsim/host/output_file.hpp"
#include "libsim/run/pipeline_shape.hpp"
#include "libsim/trace/trace.hpp"
#include "libsim/trace/trace_names.hpp"

namespace stagecraft {

/// The name of the first group: ASTRA-sim asserts that ids are positive, and takes "0" as all
/// ranks.
inline constexpr std::int32_t first_chakra_group = 1;

/// The first message of a Chakra file.
std::string chakra_header();

/// A number of its own for each payload, microbatch and boundary, which is below `upper_stage`.
std::int64_t message_tag(std::int64_t upper_stage,
                         bool is_gradient,
                         std::int64_t microbatch,
                         std::int64_t virtual_stages);

/// Nodes of one rank of the trace, as write_chakra() describes them. What differs between the ranks
/// that it stands for is asked for when a node is written.
class ChakraNodes {
 public:
  /// All but `collectives` must outlive it.
  ChakraNodes(RankTrace const& rank,
              TraceNames const& names,
              KnownNames const& known,
              std::map<std::string, CollectiveOp> const& collectives);

  /// Writes the nodes of rank `number` of the job.
  void write(std::int32_t number,
             GroupNumbers& groups,
             PipelineShape const& shape,
             OutputFile& output) const;

 private:
  enum class NodeType : std::uint8_t { comp = 4, send = 5, receive = 6, collective = 7 };

  std::size_t op(std::size_t row) const { return static_cast<std::size_t>(rank_.ops.op[row]); }
  bool is_wait(std::size_t row) const { return is_wait_[op(row)]; }
  NodeType type(std::size_t row) const;
  bool is_shift(std::size_t row) const;
  /// The number of the node that receives what a shift brings; the one that sends has the row's.
  std::int64_t receiving_node(std::size_t row) const {
    return static_cast<std::int64_t>(rank_.ops.rows() + row);
  }
  /// What a node depends on.
  std::vector<std::int64_t> nodes_before(std::size_t row) const;
  std::int64_t end_of(std::int64_t row) const;
  void find_dependencies();
  ProtobufMessage node(std::size_t row,
                       std::int32_t number,
                       GroupNumbers& groups,
                       PipelineShape const& shape,
                       NodeType kind) const;
  void add_shift(ProtobufMessage& message,
                 std::size_t row,
                 std::int32_t number,
                 GroupNumbers& groups,
                 NodeType kind) const;
  void add_message(ProtobufMessage& message,
                   std::size_t row,
                   std::int32_t number,
                   PipelineShape const& shape) const;

  RankTrace const& rank_;
  TraceNames const& names_;
  KnownNames const& known_;
  std::vector<std::optional<CollectiveOp>> collective_;  ///< by op name
  std::vector<std::string> texts_;                       ///< op names
  std::vector<bool> is_wait_;                            ///< by op name
  std::vector<std::vector<std::int64_t>> dependencies_;  ///< rows, by row
};

}  // namespace stagecraft
