/* How the library comes to know librdkafka and its clients.

   A shared object for ctypes (which lets go of the GIL while it calls), no Python module. It uses
   the librdkafka that confluent_kafka has loaded, found when it is bound, and public calls only:
   librdkafka loads it once more as a plugin, and tells it of each client that is made.

   confluent_kafka's callbacks end the process when they run outside of its own calls. The one that
   a partition's queue can call, for errors that are none of the consumer's (a partition that is
   not known yet), is taken out: without a callback in Python it does nothing either. */

#define _POSIX_C_SOURCE 200809L
#include "binding.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { PRODUCER }; /* the first of librdkafka's types of clients */

struct kafka kafka;
_Thread_local void *made_consumer;
_Thread_local void *made_batch_producer;

/* Find librdkafka through a library that is linked with it and already loaded: 0, or -1. */
int ms_bind(const char *library) {
    const struct {
        void *place;
        const char *name;
    } wanted[] = {
        {&kafka.version, "rd_kafka_version"},
        {&kafka.type, "rd_kafka_type"},
        {&kafka.name, "rd_kafka_name"},
        {&kafka.conf, "rd_kafka_conf"},
        {&kafka.conf_get, "rd_kafka_conf_get"},
        {&kafka.conf_set_error, "rd_kafka_conf_set_error_cb"},
        {&kafka.intercept, "rd_kafka_conf_interceptor_add_on_new"},
        {&kafka.on_ended, "rd_kafka_conf_interceptor_add_on_conf_destroy"},
        {&kafka.on_acknowledged, "rd_kafka_interceptor_add_on_acknowledgement"},
        {&kafka.queue_new, "rd_kafka_queue_new"},
        {&kafka.queue_of, "rd_kafka_queue_get_partition"},
        {&kafka.queue_forward, "rd_kafka_queue_forward"},
        {&kafka.queue_destroy, "rd_kafka_queue_destroy"},
        {&kafka.consume, "rd_kafka_consume_batch_queue"},
        {&kafka.destroy, "rd_kafka_message_destroy"},
        {&kafka.timestamp, "rd_kafka_message_timestamp"},
        {&kafka.topic, "rd_kafka_topic_name"},
        {&kafka.text, "rd_kafka_message_errstr"},
        {&kafka.headers, "rd_kafka_message_headers"},
        {&kafka.header_count, "rd_kafka_header_cnt"},
        {&kafka.header, "rd_kafka_header_get_all"},
        {&kafka.headers_new, "rd_kafka_headers_new"},
        {&kafka.headers_destroy, "rd_kafka_headers_destroy"},
        {&kafka.header_add, "rd_kafka_header_add"},
        {&kafka.topic_new, "rd_kafka_topic_new"},
        {&kafka.topic_destroy, "rd_kafka_topic_destroy"},
        {&kafka.produce, "rd_kafka_produceva"},
        {&kafka.error_code, "rd_kafka_error_code"},
        {&kafka.error_destroy, "rd_kafka_error_destroy"},
    };
    void *loaded = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    if (!loaded) return -1;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *found = dlsym(loaded, wanted[i].name);
        if (!found) return -1;
        memcpy(wanted[i].place, &found, sizeof found);
    }
    return 0;
}

int ms_version(void) { return kafka.version(); }

static int has_error_callback(const void *conf) {
    char value[64] = "";
    size_t size = sizeof value;
    return kafka.conf_get(conf, "error_cb", value, &size) == 0;
}

/* A consumer whose callback was not seen to go is not remembered: it is read in another way. */
static int remember(void *client, void *conf, void *opaque, char *text, size_t size) {
    (void)opaque, (void)text, (void)size;
    if (kafka.type(client) == PRODUCER) {
        made_batch_producer = batch_producer_of(client, conf);
        return 0;
    }
    int had = has_error_callback(kafka.conf(client));
    kafka.conf_set_error(conf, NULL);
    made_consumer = had && !has_error_callback(kafka.conf(client)) ? client : NULL;
    return 0;
}

/* Called by librdkafka for a configuration that names this file in `plugin.library.paths`. */
int conf_init(void *conf, void **opaque, char *text, size_t size) {
    (void)opaque;
    if (kafka.intercept) return kafka.intercept(conf, "millstream", remember, NULL);
    snprintf(text, size, "millstream's library is not bound");
    return -1;
}

void ms_forget(void) { made_consumer = made_batch_producer = NULL; }
