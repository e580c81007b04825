#include "libsim/modules/word_embedding.hpp"

#include "libsim/modules/hidden_shapes.hpp"
#include "libsim/modules/pointwise.hpp"

namespace stagecraft {

namespace {

/// Bytes of the rows of a table of positions (or of its gradient) that no token of s reads.
Bytes unused_positions(ProgramBuilder const& builder, TensorId table) {
  Tensor const& tensor = builder.tensor(table);
  return Bytes{(tensor.shape[0] - builder.shape().sequence()) * tensor.shape[1] *
               element_size(tensor.type)};
}

/// Returns the rows looked up, summed over the vocabulary shards, with positions added:
/// [s or s/t, b, h].
TensorId look_up(ProgramBuilder& builder, TensorId tokens, TensorId table, TensorId positions) {
  BlockShape const& shape = builder.shape();
  TensorId const rows = builder.make({"embedding", "rows"}, whole_hidden(shape));
  Op& lookup = builder.add(OpKind::embedding, {"embedding", "lookup"}, Phase::forward,
                           {tokens, table}, {rows});
  lookup.traffic = 2 * builder.tensor(rows).bytes();  // only the rows looked up are read
  bool const scatters_directly = shape.sequence_parallel && positions == no_tensor;
  if (scatters_directly) {
    TensorId const shard = builder.make({"embedding", "rows_shard"}, local_hidden(shape));
    builder.collective(OpKind::reduce_scatter, {"embedding", "reduce_scatter"}, Phase::forward,
                       rows, shard, rows, Overlap::none);
    return shard;
  }
  builder.collective(OpKind::all_reduce, {"embedding", "all_reduce"}, Phase::forward, rows, rows,
                     rows, Overlap::none);
  if (positions != no_tensor) {
    Op& add = builder.add(OpKind::add_positions, {"embedding", "add_positions"}, Phase::forward,
                          {rows, positions}, {rows});
    add.traffic -= unused_positions(builder, positions);
  }
  if (!shape.sequence_parallel) return rows;
  TensorId const shard = builder.make({"embedding", "rows_shard"}, local_hidden(shape));
  Op& cut = builder.add(OpKind::slice, {"embedding", "slice"}, Phase::forward, {rows}, {shard});
  cut.traffic = 2 * builder.tensor(shard).bytes();
  return shard;
}

void rows_backward(ProgramBuilder& builder, WordEmbedding const& words, TensorId dy) {
  BlockShape const& shape = builder.shape();
  TensorId whole = dy;
  if (shape.sequence_parallel) {
    whole = builder.make({"embedding", "gathered_gradient"}, whole_hidden(shape), builder.type(),
                         Category::communication);
    builder.collective(OpKind::all_gather, {"embedding", "all_gather_gradient"},
                       Phase::input_gradient, dy, whole, whole, Overlap::none);
  }
  TensorId const gradient = builder.gradient_of(words.table);
  Op& scatter = builder.add(OpKind::embedding_backward, {"embedding", "weight_gradient"},
                            Phase::weight_gradient, {whole, words.tokens}, {gradient});
  // Every row of dy is read; on average 1/t of them are added to this rank's rows of the gradient.
  std::int64_t const elements = builder.tensor(whole).shape.elements();
  scatter.traffic =
      builder.tensor(whole).bytes() +
      Bytes{2 * elements / shape.tensor * element_size(builder.tensor(gradient).type)};
  if (words.positions != no_tensor) {
    Op& sum = builder.add(OpKind::positions_gradient, {"positions", "weight_gradient"},
                          Phase::weight_gradient, {whole}, {builder.gradient_of(words.positions)});
    sum.traffic -= unused_positions(builder, builder.gradient_of(words.positions));
  }
}

}  // namespace

TensorId load_words(ProgramBuilder& builder, OpKind kind, Name name, int ahead) {
  BlockShape const& shape = builder.shape();
  TensorId const tokens = builder.make(name, {shape.sequence(), shape.micro}, ElementType::i64);
  builder.add(kind, name, Phase::forward, {}, {tokens}, TokensAttributes{ahead});
  return tokens;
}

TensorId embedding_forward(ProgramBuilder& builder, WordEmbedding& words, int ahead) {
  BlockShape const& shape = builder.shape();
  words.tokens = load_words(builder, OpKind::load_tokens, {"embedding", "tokens"}, ahead);
  TensorId const rows = look_up(builder, words.tokens, words.table, words.positions);
  if (shape.model.dropout == 0) return rows;
  return dropout_forward(builder, hidden_dropout(shape, DropoutSite::embedding),
                         {"embedding", "dropout"}, {"embedding", "output"},
                         {"embedding", "dropout_mask"}, rows, words.mask);
}

void embedding_backward(ProgramBuilder& builder, WordEmbedding const& words, TensorId dy) {
  BlockShape const& shape = builder.shape();
  TensorId const d_rows =
      shape.model.dropout > 0
          ? dropout_backward(builder, hidden_dropout(shape, DropoutSite::embedding),
                             {"embedding", "dropout_backward"}, {"embedding", "rows_gradient"}, dy,
                             words.mask)
          : dy;
  rows_backward(builder, words, d_rows);
}

}  // namespace stagecraft
