#include "libsim/program/parameter.hpp"

namespace stagecraft {

ParameterTraits replicated(int tensor_ranks,
                           Shape const& shape,
                           std::optional<GroupId> gradient_sum) {
  return {.whole_rows = shape[0],
          .whole_columns = shape.rank() > 1 ? shape[1] : 1,
          .segments = {{.rows = shape[0],
                        .shares = {{.replicas = tensor_ranks}},
                        .gradient_sum = gradient_sum}}};
}

ParameterTraits cut_by_rows(int tensor_ranks,
                            std::initializer_list<RankRows> segments,
                            std::int64_t columns) {
  ParameterTraits traits{.whole_columns = columns};
  traits.segments.reserve(segments.size());
  for (RankRows const& held : segments) {
    traits.segments.push_back({.rows = held.rows,
                               .first = traits.whole_rows,
                               .shares = {{.stride = held.rows, .replicas = held.replicas}},
                               .gradient_sum = held.gradient_sum});
    traits.whole_rows += tensor_ranks / held.replicas * held.rows;
  }
  return traits;
}

ParameterTraits cut_by_columns(int tensor_ranks, Shape const& shape) {
  return {.whole_rows = shape[0],
          .whole_columns = tensor_ranks * shape[1],
          .segments = {{.rows = shape[0]}},
          .column_shares = {{.stride = shape[1]}}};
}

}  // namespace stagecraft
