#include "libsim/report/layer_report.hpp"

#include <algorithm>
#include <map>

#include "libsim/config/optional_json.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/modules/blocks.hpp"
#include "libsim/plan/fingerprint.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/trace/trace_names.hpp"
#include "libsim/trace/trace_sums.hpp"

namespace stagecraft {
namespace {

std::string shape_text(Shape const& shape) {
  std::string text;
  for (int i = 0; i < shape.rank(); ++i) text += (i == 0 ? "" : " x ") + std::to_string(shape[i]);
  return text;
}

std::string shape_of(BlockProgram const& block, Op const& op) {
  if (auto const* const gemm = std::get_if<GemmAttributes>(&op.attributes)) {
    GemmShape const& shape = gemm->shape;
    std::string const batch = shape.batch > 1 ? std::to_string(shape.batch) + " of " : "";
    return batch + std::to_string(shape.m) + " x " + std::to_string(shape.n) + " x " +
           std::to_string(shape.k);
  }
  TensorList const& operands = op.writes.size() > 0 ? op.writes : op.reads;
  return operands.size() > 0 ? shape_text(block.tensor(operands[0]).shape) : "";
}

/// The bytes of each saved buffer, attributed to the op that first writes it.
std::map<TensorId, std::int64_t> saved_buffers(BlockProgram const& block) {
  std::map<TensorId, std::int64_t> saved;
  for (BufferLife const& life : block.lives) {
    if (life.is_saved()) saved[life.buffer] = block.tensor(life.buffer).bytes().count();
  }
  return saved;
}

void append_ops(LayerReport& report,
                BlockProgram const& block,
                Pass pass,
                PassTimes const& times,
                std::map<TensorId, std::int64_t>& saved) {
  std::vector<Op> const& ops = block.ops(pass);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    Op const& op = ops[i];
    LayerOpRow row;
    row.op = to_string(op.name);
    row.phase = name_of(op.phase);
    row.stream = name_of(op.stream);
    row.shape = shape_of(block, op);
    row.flops = op.flops;
    row.bytes = recorded_bytes(op);
    if (pass == Pass::forward) {
      for (TensorId const id : op.writes) {
        auto const buffer = saved.find(block.tensor(id).buffer);
        if (buffer == saved.end()) continue;
        row.saved_bytes += buffer->second;
        saved.erase(buffer);
      }
    }
    row.start_seconds = to_seconds(times.start[i]);
    row.seconds = to_seconds(times.end[i] - times.start[i]);
    report.ops.push_back(std::move(row));
  }
}

/// The paper's heading for a tensor, from its name in the op program.
std::string part_of(Name const& name) {
  std::string_view const owner = name.owner;
  if (owner.ends_with("_norm")) return "norms";
  if (owner.starts_with("mlp")) return "MLP";
  if (owner.starts_with("attention") || owner == "core_attention") return "attention";
  return std::string{owner};
}

std::string milliseconds(double seconds) { return decimals(1e3 * seconds, 3); }

std::string in_hidden_states(LayerReport const& report, std::int64_t bytes) {
  return decimals(static_cast<double>(bytes) / static_cast<double>(report.hidden_bytes), 3);
}

/// MiB, or KiB if all sizes are small.
ByteUnit unit_of(std::vector<LayerOpRow> const& ops) {
  constexpr std::int64_t mebibyte = 1 << 20;
  std::int64_t largest = 0;
  for (LayerOpRow const& row : ops) largest = std::max({largest, row.bytes, row.saved_bytes});
  return unit_for(std::min(largest, mebibyte));
}

/// "8192×2304×6144"
std::string dense(std::string shape) {
  for (std::size_t at = 0; (at = shape.find(" x ", at)) != std::string::npos;) {
    shape.replace(at, 3, "×");
  }
  return shape;
}

/// "weight grad" of "weight_gradient".
std::string shortened(std::string const& phase) {
  std::string const text = readable_name(phase);
  std::size_t const at = text.find(" gradient");
  return at == std::string::npos ? text : text.substr(0, at) + " grad";
}

/// Forward, a rule, backward. The owner of consecutive ops is a line above them; `saved` is in the
/// unit of the column before.
std::string ops_text(LayerReport const& report) {
  ByteUnit const unit = unit_of(report.ops);
  TextTable table{{{"op", Align::left},
                   {"phase", Align::left},
                   {"shape", Align::left},
                   {"GFLOP"},
                   {std::string{unit.name}},
                   {"saved"},
                   {"start ms"},
                   {"ms"}}};
  auto const size = [&](std::int64_t bytes) {
    return decimals(static_cast<double>(bytes) / static_cast<double>(unit.bytes), 1);
  };
  std::string owner;
  bool is_forward = true;
  for (LayerOpRow const& row : report.ops) {
    if (is_forward && row.phase != name_of(Phase::forward)) {
      is_forward = false;
      owner.clear();
      table.add_rule();
    }
    std::size_t const dot = row.op.rfind('.');
    std::string const its_owner = row.op.substr(0, dot == std::string::npos ? 0 : dot);
    if (its_owner != owner) table.add_row({its_owner, "", "", "", "", "", "", ""});
    owner = its_owner;
    bool const is_marker = row.bytes == 0 && row.flops == 0;
    table.add_row({"  " + row.op.substr(dot + 1), shortened(row.phase), dense(row.shape),
                   row.flops > 0 ? decimals(static_cast<double>(row.flops) * 1e-9, 1) : "",
                   is_marker ? "" : size(row.bytes),
                   row.saved_bytes > 0 ? size(row.saved_bytes) : "",
                   milliseconds(row.start_seconds), milliseconds(row.seconds)});
  }
  return table.text();
}

std::string saved_text(LayerReport const& report) {
  TextTable table{
      {{"kept from forward to backward", Align::left}, {"", Align::left}, {"bytes"}, {"sbh"}}};
  std::map<std::string, std::int64_t> sums;
  for (SavedTensorRow const& row : report.saved) {
    sums[row.part] += row.bytes;
    table.add_row(
        {row.part, row.tensor, std::to_string(row.bytes), in_hidden_states(report, row.bytes)});
  }
  table.add_rule();
  for (auto const& [part, bytes] : sums) {
    table.add_row({part, "", std::to_string(bytes), in_hidden_states(report, bytes)});
  }
  table.add_row({"all", "", std::to_string(report.saved_bytes),
                 in_hidden_states(report, report.saved_bytes)});
  if (report.paper_bytes) {
    table.add_row({"the paper's table 2", "", std::to_string(*report.paper_bytes),
                   in_hidden_states(report, *report.paper_bytes)});
  }
  return table.text();
}

}  // namespace

std::vector<LayerReport> report_layers(TrainingPlan const& plan, CostModel const& cost) {
  std::vector<LayerReport> reports;
  BlockShape const& shape = plan.shape;
  for (BlockProgram const& block : plan.programs.blocks) {
    if (block.kind != BlockProgram::Kind::layers) continue;
    LayerReport& report = reports.emplace_back();
    report.layers = block.layers;
    report.hidden_bytes = shape.sequence() * shape.micro * shape.model.hidden;
    PassTimes const forward = time_pass(block, Pass::forward, cost);
    PassTimes const backward = time_pass(block, Pass::backward, cost);
    report.forward_seconds = to_seconds(forward.duration);
    report.backward_seconds = to_seconds(backward.backward);
    report.recompute_seconds = to_seconds(backward.recompute);
    std::map<TensorId, std::int64_t> saved = saved_buffers(block);
    for (auto const& [buffer, bytes] : saved) {
      Name const& name = block.tensor(buffer).name;
      report.saved.push_back({part_of(name), to_string(name), bytes});
    }
    report.saved_bytes = saved_bytes(block).count();
    append_ops(report, block, Pass::forward, forward, saved);
    append_ops(report, block, Pass::backward, backward, saved);
    RecomputePolicy const& policy = block.policy;
    if (block.layers == 1 && has_paper_bytes(shape, policy)) {
      report.paper_bytes = paper_bytes(shape, policy).count();
    }
  }
  return reports;
}

std::string to_text(LayerReport const& report) {
  std::string text = ops_text(report);
  if (std::any_of(report.ops.begin(), report.ops.end(),
                  [](LayerOpRow const& row) { return row.stream == "tensor_parallel"; })) {
    text +=
        "Exchanges with the other tensor ranks run beside what follows them, up to their wait.\n";
  }
  text += "\n" + saved_text(report) + "\nforward " + milliseconds(report.forward_seconds) +
          " ms, backward " + milliseconds(report.backward_seconds) + " ms, recompute " +
          milliseconds(report.recompute_seconds) + " ms";
  if (report.layers > 1) text += " for a group of " + std::to_string(report.layers) + " layers";
  return text + "\n";
}

namespace {

nlohmann::ordered_json layer_json(LayerReport const& report) {
  using Json = nlohmann::ordered_json;
  auto const op = [](LayerOpRow const& row) -> Json {
    return {{"op", row.op},
            {"phase", row.phase},
            {"stream", row.stream},
            {"shape", row.shape},
            {"flops", row.flops},
            {"bytes", row.bytes},
            {"saved_bytes", row.saved_bytes},
            {"start_seconds", row.start_seconds},
            {"seconds", row.seconds}};
  };
  auto const saved = [](SavedTensorRow const& row) -> Json {
    return {{"part", row.part}, {"tensor", row.tensor}, {"bytes", row.bytes}};
  };
  return {{"layers", report.layers},
          {"forward_seconds", report.forward_seconds},
          {"backward_seconds", report.backward_seconds},
          {"recompute_seconds", report.recompute_seconds},
          {"saved_bytes", report.saved_bytes},
          {"paper_bytes", report.paper_bytes},
          {"ops", list_of(report.ops, op)},
          {"saved", list_of(report.saved, saved)}};
}

}  // namespace

nlohmann::ordered_json layers_document(TrainingPlan const& plan,
                                       std::vector<LayerReport> const& reports) {
  return {{"schema", layers_schema},
          {"plan", fingerprint(plan)},
          {"layers", list_of(reports, layer_json)}};
}

}  // namespace stagecraft
