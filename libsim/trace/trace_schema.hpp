#pragma once

#include <array>
#include <string_view>

#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// An attribute of the root and its member of TraceMeta. (`schema` and `clock` are not among them.)
struct MetaAttribute {
  char const* name;
  std::string TraceMeta::*text;
};
inline constexpr std::array<MetaAttribute, 5> meta_attributes{
    {{"program_version", &TraceMeta::program_version},
     {"command_line", &TraceMeta::command_line},
     {"config", &TraceMeta::config},
     {"plan", &TraceMeta::plan},
     {"device", &TraceMeta::device}}};

/// An optional group of a rank, beside its memory and with as many rows, and its column.
inline constexpr char const* allocator_group = "allocator";
inline constexpr ColumnDescription reserved_column{"reserved", "byte"};

struct NamesDataset {
  char const* name;
  std::vector<std::string> TraceNames::*names;
};
inline constexpr std::array<NamesDataset, 3> names_datasets{
    {{"op", &TraceNames::op}, {"phase", &TraceNames::phase}, {"stream", &TraceNames::stream}}};

}  // namespace stagecraft
