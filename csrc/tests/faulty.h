/*
 * Stands in front of every file of the C tests: what csrc calls of the system and of the libraries, and what can fail, goes
 * through test_faults.c, which lets it fail.
 */
#define malloc faulty_malloc
#define calloc faulty_calloc
#define posix_memalign faulty_posix_memalign
#define free faulty_free
#define pthread_mutex_init faulty_pthread_mutex_init
#define pthread_atfork faulty_pthread_atfork
#define sodium_init faulty_sodium_init
#define crypto_aead_aes256gcm_beforenm faulty_aes256gcm_beforenm
#define crypto_aead_aes256gcm_encrypt_afternm faulty_aes256gcm_encrypt_afternm
#define crypto_aead_xchacha20poly1305_ietf_encrypt faulty_xchacha20poly1305_encrypt
#define EVP_CIPHER_fetch faulty_EVP_CIPHER_fetch
#define EVP_CIPHER_CTX_new faulty_EVP_CIPHER_CTX_new
#define EVP_CIPHER_CTX_free faulty_EVP_CIPHER_CTX_free
#define EVP_CipherInit_ex faulty_EVP_CipherInit_ex
#define EVP_CipherUpdate faulty_EVP_CipherUpdate
#define EVP_CipherFinal_ex faulty_EVP_CipherFinal_ex
#define EVP_CIPHER_CTX_ctrl faulty_EVP_CIPHER_CTX_ctrl
