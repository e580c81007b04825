#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "libsim/units/enum_names.hpp"

namespace stagecraft {

/// What an op or a message runs on. The ops on one stream run in issue order; streams run
/// concurrently. Messages of one payload and direction follow each other, but not those of
/// different payloads. Traces name streams in this order.
enum class Stream : std::uint8_t {
  compute,
  tensor_parallel,  ///< every pass waits for the ops that it has issued there
  data_parallel,    ///< the plan says when it is waited for
  send_activation,
  send_gradient,
  receive_activation,
  receive_gradient,
  gather,           ///< of sharded units; every pass waits for it, too
  sum_over_copies,  ///< of their gradients, likewise
  to_host,          ///< over the link to the host: gradients of what the host updates
  host,             ///< the processors of the node
  from_host,        ///< back over the link: what they have updated
};

/// What the streams of a kind have in common.
enum class StreamKind : std::uint8_t {
  layers,      ///< what passes of layers compute, and the collectives in them
  reductions,  ///< collectives of the optimizer step
  messages,    ///< between stages; no op runs on them
  units,       ///< what sharded units gather or reduce; only plans with units have them
  offload,     ///< the steps of what the host updates; only plans that offload have them
};

/// All that is told of a stream anywhere.
struct StreamRow {
  Stream stream = Stream::compute;
  std::string_view name;  ///< in traces, plans and JSON
  StreamKind kind = StreamKind::layers;
};

/// In the order of the enumeration.
inline constexpr auto stream_rows = std::to_array<StreamRow>({
    {Stream::compute, "compute", StreamKind::layers},
    {Stream::tensor_parallel, "tensor_parallel", StreamKind::layers},
    {Stream::data_parallel, "data_parallel", StreamKind::reductions},
    {Stream::send_activation, "send_activation", StreamKind::messages},
    {Stream::send_gradient, "send_gradient", StreamKind::messages},
    {Stream::receive_activation, "receive_activation", StreamKind::messages},
    {Stream::receive_gradient, "receive_gradient", StreamKind::messages},
    {Stream::gather, "gather", StreamKind::units},
    {Stream::sum_over_copies, "sum_over_copies", StreamKind::units},
    {Stream::to_host, "to_host", StreamKind::offload},
    {Stream::host, "host", StreamKind::offload},
    {Stream::from_host, "from_host", StreamKind::offload},
});

template <>
struct EnumNames<Stream> {
  static constexpr auto all = names_in<Stream>(stream_rows, &StreamRow::stream);
};

constexpr StreamKind kind_of(Stream stream) {
  return stream_rows[static_cast<std::size_t>(stream)].kind;
}

}  // namespace stagecraft
