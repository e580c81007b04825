#pragma once

#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace stagecraft {

/// Computes a SHA-256 digest of text that is added piece by piece.
class Sha256 {
 public:
  /// \throws std::runtime_error  if OpenSSL fails; likewise the functions below.
  Sha256();
  void add(std::string_view piece);
  /// The digest as 64 hexadecimal digits. Nothing can be added afterwards.
  std::string hexadecimal();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace stagecraft
